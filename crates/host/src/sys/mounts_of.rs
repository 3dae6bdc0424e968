//! Mounts of a process, once more: for one that goes on in another mount namespace with the same file systems.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use super::netns::on_thread;
use super::{Error, mount, proc};

/// Mounts that are attached nowhere yet.
#[derive(Debug)]
pub struct MountsOf {
    root: OwnedFd,
    /// Whole file systems in memory, by their mount points below the root.
    in_memory: Vec<(PathBuf, OwnedFd)>,
}

impl MountsOf {
    /// The root of a process and the file systems in memory that it sees; `process` is a pidfd of `pid`.
    pub fn process(process: BorrowedFd<'_>, pid: u32) -> Result<MountsOf, Error> {
        let path = format!("/proc/{pid}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(Error::of("open", path))?;
        let mut wanted = proc::mounts_of(pid)?;
        wanted.retain(|mount| {
            let is_whole = mount.kind == "tmpfs" && mount.root == Path::new("/");
            is_whole && mount.point != Path::new("/") && has_plain_name(&mount.point)
        });
        on_thread(|| {
            // SAFETY: gives the calling thread a root and working directory of its own. It ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
                .map_err(Error::of("leave", "the shared root"))?;
            // Only those in a mount namespace may clone its mounts.
            move_into_thread_name_spaces(process, ThreadNameSpaceType::MOUNT)
                .map_err(Error::of("enter the mounts of process", pid))?;
            let mut in_memory = Vec::new();
            for mount in wanted {
                if let Some(found) = visible(&root, &mount)? {
                    in_memory.push((mount.point, cloned(&found)?));
                }
            }
            let root = cloned(&root)?;
            Ok(MountsOf { root, in_memory })
        })
    }

    /// Attaches the root at `root` and each of the others at a directory that it makes in `below`; the mount points of
    /// those in the process, and the directories.
    pub fn attach(&self, root: &Path, below: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
        mount::attach(&self.root, root)?;
        let mut places = Vec::new();
        for (number, (point, mount)) in self.in_memory.iter().enumerate() {
            let place = below.join(number.to_string());
            std::fs::create_dir(&place).map_err(Error::of("make", place.display()))?;
            mount::attach(mount, &place)?;
            places.push((point.clone(), place));
        }
        Ok(places)
    }
}

/// Whether CRIU's option for a mount can name it.
fn has_plain_name(point: &Path) -> bool {
    point
        .to_str()
        .is_some_and(|point| !point.contains([']', ':']))
}

/// A mount as it is seen by its path; none if another one hides it.
fn visible(root: &OwnedFd, mount: &proc::Mount) -> Result<Option<OwnedFd>, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(root, &mount.point, flags, Mode::empty(), resolve);
    let Ok(opened) = opened else { return Ok(None) };
    let stat = rustix::fs::statx(&opened, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        .map_err(Error::of("look at", mount.point.display()))?;
    Ok((stat.stx_mnt_id == mount.id).then_some(opened))
}

fn cloned(mount: &OwnedFd) -> Result<OwnedFd, Error> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(mount, "", flags).map_err(Error::of("clone", "a mount"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ends_the_option_is_not_plain() {
        assert!(has_plain_name(Path::new("/dev/shm")));
        for point in ["/a]b", "/a:b"] {
            assert!(!has_plain_name(Path::new(point)), "{point}");
        }
    }
}
