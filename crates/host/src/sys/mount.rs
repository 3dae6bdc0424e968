//! Mounts: bind, overlay, private propagation, and removing everything below a directory.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::checked;
use super::{Error, Errors, proc};

/// The calling thread's mount namespace.
pub(super) const OWN: &str = "/proc/thread-self/ns/mnt";

/// Mounts on top of each other at one place that are removed before something must be wrong.
const STACKED_MAX: usize = 64;

/// Makes `source` (file or directory) appear at `target` too. Mounts below `source` do not come
/// along, unless `recursive`.
pub fn bind(source: &Path, target: &Path, recursive: bool) -> Result<(), Error> {
    let result = if recursive {
        rustix::mount::mount_bind_recursive(source, target)
    } else {
        rustix::mount::mount_bind(source, target)
    };
    result.map_err(Error::of(
        "bind",
        format!("{} to {}", source.display(), target.display()),
    ))
}

/// Whether options of a bind can be set for all mounts below it in one step (`mount_setattr(2)`, Linux 5.12).
pub fn has_recursive_attributes() -> bool {
    // SAFETY: refused for want of arguments, or unknown; nothing is read or changed.
    let result = unsafe { libc::syscall(libc::SYS_mount_setattr, -1, 0, 0, 0, 0) };
    debug_assert_ne!(result, 0);
    io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Makes an existing mount read-only, and no way to devices. Mounts below it keep their own setting.
pub fn make_read_only(target: &Path) -> Result<(), Error> {
    remount_read_only(target, MountFlags::NODEV)
}

/// Makes an existing mount read-only. Its devices stay, and other options are the kernel's defaults.
pub fn forbid_writing(target: &Path) -> Result<(), Error> {
    remount_read_only(target, MountFlags::empty())
}

/// Makes an existing mount no way to devices, and its set-user-ID files plain ones.
pub fn make_inert(target: &Path) -> Result<(), Error> {
    let flags = MountFlags::BIND | MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount_remount(target, flags, "")
        .map_err(Error::of("make inert", target.display()))
}

fn remount_read_only(target: &Path, more: MountFlags) -> Result<(), Error> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | more;
    rustix::mount::mount_remount(target, flags, "")
        .map_err(Error::of("make read-only", target.display()))
}

/// Options of a cloned mount.
#[derive(Debug, Clone, Copy, Default)]
pub struct TreeOptions {
    pub read_only: bool,
    pub no_devices: bool,
    pub no_programs: bool,
    pub no_set_user_id: bool,
}

/// A copy of the mount that has `source`, seen nowhere until it is attached.
pub fn clone_tree(source: &Path, recursive: bool) -> Result<OwnedFd, Error> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    rustix::mount::open_tree(CWD, source, flags)
        .map_err(Error::of("clone the mount of", source.display()))
}

/// Adds options to a cloned mount, and to those below it if `recursive` (`mount_setattr(2)`, Linux 5.12).
pub fn set_options(
    tree: BorrowedFd<'_>,
    options: TreeOptions,
    recursive: bool,
) -> Result<(), Error> {
    let flag = |wanted: bool, flag: u64| if wanted { flag } else { 0 };
    let attributes = libc::mount_attr {
        attr_set: flag(options.read_only, libc::MOUNT_ATTR_RDONLY)
            | flag(options.no_devices, libc::MOUNT_ATTR_NODEV)
            | flag(options.no_programs, libc::MOUNT_ATTR_NOEXEC)
            | flag(options.no_set_user_id, libc::MOUNT_ATTR_NOSUID),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let below = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the structure, whose size is given, and the empty path outlive the call, which only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | below,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(result).map_err(Error::of("set options of", "a mount"))
}

/// Mounts a file system of the kernel's at `target`.
pub fn file_system(
    source: &Path,
    target: &Path,
    kind: &str,
    flags: MountFlags,
    data: &str,
) -> Result<(), Error> {
    let failed = Error::of("mount a file system at", target.display());
    let Ok(data) = CString::new(data) else {
        return Err(failed(Errno::INVAL));
    };
    rustix::mount::mount(source, target, kind, flags, Some(data.as_c_str())).map_err(failed)
}

/// Attaches a cloned mount at `target`; nothing mounted there is seen elsewhere.
pub fn attach(mount: impl AsFd, target: &Path) -> Result<(), Error> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", CWD, target, flags)
        .map_err(Error::of("attach a mount at", target.display()))?;
    rustix::mount::mount_change(target, MountPropagationFlags::PRIVATE)
        .map_err(Error::of("make private", target.display()))
}

/// Mounts an empty tmpfs of at most `size_bytes` at `target`.
pub fn tmpfs(target: &Path, size_bytes: u64) -> Result<(), Error> {
    let options = CString::new(format!("size={size_bytes},mode=0755")).expect("digits only");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("latlab", target, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(Error::of("mount tmpfs at", target.display()))
}

/// Mounts `lowers`, the first on top, at `target` with all changes going to `upper`; `work` is scratch space on the
/// same file system as `upper`, as overlayfs wants it. Device nodes in them are no way to devices.
pub fn overlay(lowers: &[&Path], upper: &Path, work: &Path, target: &Path) -> Result<(), Error> {
    let mut options = b"lowerdir=".to_vec();
    for (number, lower) in lowers.iter().enumerate() {
        options.extend((number > 0).then_some(b':'));
        escape_into(&mut options, lower, b"\\,:");
    }
    options.extend(b",upperdir=");
    escape_into(&mut options, upper, b"\\,");
    options.extend(b",workdir=");
    escape_into(&mut options, work, b"\\,");
    let mount = || {
        let options = CString::new(options).map_err(|_| Errno::INVAL)?;
        let flags = MountFlags::NODEV;
        rustix::mount::mount("latlab", target, "overlay", flags, Some(options.as_c_str()))
    };
    mount().map_err(Error::of("mount overlay at", target.display()))
}

/// Overlay options are separated by commas and lower directories by colons; a backslash protects.
fn escape_into(options: &mut Vec<u8>, path: &Path, special: &[u8]) {
    for &byte in path.as_os_str().as_bytes() {
        if special.contains(&byte) {
            options.push(b'\\');
        }
        options.push(byte);
    }
}

/// Leads the calling thread out of a chroot, which hides the mount that it lies in: to the root of the thread's own mount
/// namespace, which it enters once more.
pub(super) fn leave_chroot() -> Result<(), Error> {
    let own = File::open(OWN).map_err(Error::of("open", OWN))?;
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(Error::of("enter", "own mount namespace"))
}

/// Makes `directory` a mount of its own that shares nothing with other mount namespaces. Mounts
/// made below it later stay here: otherwise every service with a mount namespace of its own would
/// get a copy of each pinned network namespace and keep it alive.
pub fn make_private(directory: &Path) -> Result<(), Error> {
    if !is_mount_point(directory)? {
        bind(directory, directory, false)?;
    }
    rustix::mount::mount_change(directory, MountPropagationFlags::PRIVATE)
        .map_err(Error::of("make private", directory.display()))
}

/// Whether something is mounted at `path`. The kernel tells (Linux 5.8); the table of mounts would have to be put together.
pub fn is_mount_point(path: &Path) -> Result<bool, Error> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, path, flags, StatxFlags::empty()) {
        Ok(about)
            if about
                .stx_attributes_mask
                .contains(StatxAttributes::MOUNT_ROOT) =>
        {
            Ok(about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        }
        _ => Ok(mount_points()?.iter().any(|point| point == path)),
    }
}

/// Unmounts `directory` and everything mounted on or below it, going on after failures. Lazily: a mount that is still
/// in use disappears from sight now, and for good when its last user ends. Nothing mounted there is success.
///
/// Outermost mounts first, because what is below a mount goes with it: a thousand namespaces pinned
/// in a private directory are one system call, and one wait of the kernel for its readers (1 ms).
pub fn unmount_below(directory: &Path) -> Result<(), Errors> {
    for _ in 0..STACKED_MAX {
        let points = mount_points().map_err(|error| Errors(vec![error]))?;
        let outermost = outermost_below(&points, directory);
        if outermost.is_empty() {
            return Ok(());
        }
        let errors = outermost.into_iter().filter_map(|point| {
            match rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // Gone meanwhile through another process.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => None,
                Err(errno) => Some(Error::of("unmount", point.display())(errno)),
            }
        });
        // Trying again would only fail again.
        Errors::check(errors.collect())?;
    }
    let reason = format!("more than {STACKED_MAX} mounts on top of each other");
    let action = "unmount everything below";
    let error = Error::because(action, directory.display(), io::ErrorKind::Other, reason);
    Err(Errors(vec![error]))
}

/// Unmounts what is mounted below `directory`, but not at it, as [`unmount_below`] does. For a mount namespace
/// of the caller's own: one round, and the first failure ends it.
pub fn unmount_within(directory: &Path) -> Result<(), Error> {
    let mut points = mount_points()?;
    points.retain(|point| point != directory);
    for point in outermost_below(&points, directory) {
        rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(Error::of("unmount", point.display()))?;
    }
    Ok(())
}

/// The mount points on or below `directory` that are not below another such one.
fn outermost_below<'a>(points: &'a [PathBuf], directory: &Path) -> Vec<&'a PathBuf> {
    let mut below: Vec<_> = points
        .iter()
        .filter(|point| point.starts_with(directory))
        .collect();
    // By components, what is below a path comes right after it.
    below.sort();
    let mut outermost: Vec<&PathBuf> = Vec::new();
    for point in below {
        if outermost.last().is_none_or(|last| !point.starts_with(last)) {
            outermost.push(point);
        }
    }
    outermost
}

/// Every mount point of this mount namespace, in the order of mounting.
pub fn mount_points() -> Result<Vec<PathBuf>, Error> {
    let mounts = proc::thread_mounts()?;
    Ok(mounts.into_iter().map(|mount| mount.point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_options_protect_separators() {
        let mut options = Vec::new();
        escape_into(&mut options, Path::new("/a,b:c\\d"), b"\\,:");
        assert_eq!(options, b"/a\\,b\\:c\\\\d");
    }

    #[test]
    fn outermost_mounts_are_those_below_no_other() {
        let points = [
            "/run/l/a/x/y",
            "/run/l/a",
            "/run/l/ab",
            "/run/l/a/x",
            "/run/l/a-b/c",
            "/run",
        ];
        let points = points.map(PathBuf::from);
        let below = |directory: &str| outermost_below(&points, Path::new(directory));
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let found: Vec<_> = below("/run/l").into_iter().cloned().collect();
        assert_eq!(found, paths(&["/run/l/a", "/run/l/a-b/c", "/run/l/ab"]));
        let found: Vec<_> = below("/run/l/a").into_iter().cloned().collect();
        assert_eq!(found, paths(&["/run/l/a"]), "by component, not by prefix");
        assert!(below("/run/l/a/x/y/z").is_empty());
    }
}
