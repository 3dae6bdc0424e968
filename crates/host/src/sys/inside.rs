//! A view of the machine other than latlab's own, for a thread and what it starts.
//!
//! A container's mounts are made on a thread that has left the machine's mount namespace, and its
//! runtime is started from there. A command for a container is started from a thread that has
//! entered the container's other namespaces. Both views end with the thread.

use std::fs::DirBuilder;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{
    CapabilitySet, ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces,
};

use super::netns::on_thread;
use super::{Error, mount};

/// File systems that keep files in memory (`linux/magic.h`).
const TMPFS_MAGIC: u32 = 0x0102_1994;
const RAMFS_MAGIC: u32 = 0x8584_58f6;

/// The namespaces of a node, but for that of its mounts.
const BUT_MOUNTS: ThreadNameSpaceType = ThreadNameSpaceType::NETWORK
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION)
    .union(ThreadNameSpaceType::CONTROL_GROUP)
    .union(ThreadNameSpaceType::PROCESS_ID);

/// Runs `body` on a thread with a mount namespace of its own: a copy of the caller's that shares
/// nothing with it. What `body` starts stays in it, and it ends with the last process inside.
///
/// `body` finds a root directory that can be pivoted: one that is a mount and has a parent. In a
/// chroot and on an initramfs `/` is not such a one, so there it is bound to `host_root`, a
/// directory that is made if need be, and made the root from there. All paths stay the same.
pub fn with_own_mounts<T: Send, E: From<Error> + Send>(
    host_root: &Path,
    body: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let result = on_thread(|| {
        // SAFETY: NEWNS gives the calling thread its own mount namespace and, with it, its own
        // root and working directory. The descriptor table stays shared. Other threads keep what
        // they have, and this one ends after `body`.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .map_err(Error::of("make", "mount namespace"))?;
        let pivotable = mount::is_mount_point(Path::new("/"))? && !is_initramfs()?;
        if pivotable {
            make_all_private()?;
        } else {
            bind_root(host_root)?;
        }
        Ok(body())
    });
    result?
}

/// Nothing mounted from here on is seen elsewhere, nor the other way round.
fn make_all_private() -> Result<(), Error> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(Error::of("make private", "/"))
}

/// Binds the root directory to `at` below it, and makes that the root.
///
/// A chroot hides the mount it lies in, which must be private before anything is mounted below.
fn bind_root(at: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(at)
        .map_err(Error::of("make", at.display()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).map_err(Error::of("open", "/"))?;
    mount::leave_chroot()?;
    make_all_private()?;
    rustix::process::fchdir(&root).map_err(Error::of("change to", "/"))?;
    let relative = at.strip_prefix("/").unwrap_or(at);
    mount::bind(Path::new("."), relative, true)?;
    rustix::process::chdir(relative).map_err(Error::of("change to", at.display()))?;
    rustix::process::chroot(c".").map_err(Error::of("make root", at.display()))?;
    rustix::process::chdir(c"/").map_err(Error::of("change to", "/"))
}

/// The kernel keeps the first root file system for ever, so it cannot be pivoted away. A tmpfs
/// that is a root is taken for it; treating it so costs one mount.
fn is_initramfs() -> Result<bool, Error> {
    is_in_memory(Path::new("/"))
}

pub fn is_in_memory(path: &Path) -> Result<bool, Error> {
    let stat = rustix::fs::statfs(path).map_err(Error::of("look at", path.display()))?;
    // The field's width and sign differ between architectures; the value is 32 bits wide.
    let kind = stat.f_type as u32;
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// Half of the machine's memory, in bytes: what the kernel allows a tmpfs unless told otherwise.
pub fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(info.mem_unit.into()) / 2
}

/// Covers the machine's cgroups, for programs that look there for something to manage: they find `unified`, a group of
/// the unified tree, and cannot change it. Without such a tree they find an empty directory.
///
/// A new mount of the tree would wait for the kernel to finish with groups just removed, several
/// milliseconds, so one that exists is shown again.
pub fn cover_cgroups(target: &Path, unified: Option<&Path>) -> Result<(), Error> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mount = |at: &Path, kind: &str| {
        rustix::mount::mount("latlab", at, kind, flags, None)
            .map_err(Error::of("mount a file system at", at.display()))
    };
    if !target.exists() {
        mount(Path::new("/sys"), "sysfs")?;
    }
    match unified {
        Some(group) => mount::bind(group, target, false)?,
        None => mount(target, "cgroup2").or_else(|_| mount(target, "tmpfs"))?,
    }
    mount::make_read_only(target)
}

/// Runs `body` on a thread in the namespaces of `process`, a pidfd: its network, host name, inter-process
/// communication and cgroup view, and what `body` starts in its process namespace. The mount namespace is left to
/// [`Spawn::root`](super::spawn::Spawn::root), because `body` needs the machine's own `/proc`. Programs started get no
/// capability outside of `keep`, by number.
pub fn in_namespaces_of<T: Send, E: From<Error> + Send>(
    process: BorrowedFd<'_>,
    keep: &[u32],
    body: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let result = on_thread(|| {
        move_into_thread_name_spaces(process, BUT_MOUNTS)
            .map_err(Error::of("enter", "the node's namespaces"))?;
        limit_capabilities(keep)?;
        Ok(body())
    });
    result?
}

/// Runs `body` on a thread that is in the namespaces of `process`, a pidfd, its mounts included, with `root` as its root:
/// what `body` mounts is mounted there.
pub fn in_mounts_of<T: Send, E: From<Error> + Send>(
    process: BorrowedFd<'_>,
    root: BorrowedFd<'_>,
    body: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let result = on_thread(|| {
        // SAFETY: only this thread gets a root and a working directory apart, and it ends after `body`.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
            .map_err(Error::of("divide", "root directories"))?;
        move_into_thread_name_spaces(process, BUT_MOUNTS | ThreadNameSpaceType::MOUNT)
            .map_err(Error::of("enter", "the node's namespaces"))?;
        rustix::process::fchdir(root)
            .and_then(|()| rustix::process::chroot(c"."))
            .map_err(Error::of("enter", "the node's root"))?;
        Ok(body())
    });
    result?
}

/// Takes everything but `keep` out of the calling thread's bounding set: the thread keeps what it
/// has, programs it executes do not get it.
fn limit_capabilities(keep: &[u32]) -> Result<(), Error> {
    for number in (0..64).filter(|number| !keep.contains(number)) {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The first number this kernel does not know.
            Err(rustix::io::Errno::INVAL) => break,
            Err(errno) => return Err(Error::of("give up capability", number)(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_not_in_memory_and_dev_shm_is() {
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
        assert!(is_in_memory(Path::new("/dev/shm")).unwrap());
        assert!(half_of_memory() > 1 << 20);
    }
}
