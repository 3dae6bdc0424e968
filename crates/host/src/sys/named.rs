//! A native node's names: its host name and its hosts file, beside the host's own files.
//!
//! As `ip netns exec` does it, a command gets namespaces of its own for them. They are made for each
//! command and end with it, so a node without commands has none, and nothing is to be undone. A copy of
//! the machine's mounts would keep the pinned network namespaces of every lab alive, so what is mounted
//! for labs is not seen in it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use super::netns::on_thread;
use super::{Error, mount};

/// Where the resolvers of all C libraries look (hosts(5)).
pub const HOSTS: &str = "/etc/hosts";

/// The names that a node's commands find.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    pub host_name: &'a str,
    /// The file in the place of [`HOSTS`].
    pub hosts: &'a Path,
    /// The directory below which labs have their mounts.
    pub labs: &'a Path,
    /// Mounts of the node's own, each with its place.
    pub mounts: &'a [(OwnedFd, PathBuf)],
}

/// Runs `body` on a thread in namespaces of its own for mounts and the host name. What `body` starts stays
/// in them. Mounts that the machine makes later appear there, and not the other way round. A machine without
/// [`HOSTS`] gets none, because that would be a change to its files.
pub fn with_names<T: Send, E: From<Error> + Send>(
    names: Names<'_>,
    body: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let result = on_thread(|| {
        // SAFETY: gives the calling thread its own mount and host-name namespaces and, with the first, its
        // own root and working directory. The descriptor table stays shared. Other threads keep what they
        // have, and this one ends after `body`.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWUTS) }
            .map_err(Error::of("make", "namespaces for mounts and the host name"))?;
        rustix::system::sethostname(names.host_name.as_bytes())
            .map_err(Error::of("set host name", names.host_name))?;
        make_all_downstream()?;
        if Path::new(HOSTS).exists() {
            mount::bind(names.hosts, Path::new(HOSTS), false)?;
        }
        mount::unmount_within(names.labs)?;
        for (tree, place) in names.mounts {
            mount::attach(tree, place)?;
        }
        Ok(body())
    });
    result?
}

/// Nothing mounted from here on is seen elsewhere.
///
/// A chroot hides the mount that it lies in. A descriptor leads back to it.
pub(super) fn make_all_downstream() -> Result<(), Error> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match mount_change("/", flags) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL) => {}
        Err(errno) => return Err(Error::of("detach", "the mounts")(errno)),
    }
    let open = |path: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map_err(Error::of("open", path))
    };
    let (root, here) = (open("/")?, open(".")?);
    mount::leave_chroot()?;
    mount_change("/", flags).map_err(Error::of("detach", "the mounts"))?;
    rustix::process::fchdir(root)
        .and_then(|()| rustix::process::chroot(c"."))
        .map_err(Error::of("change root to", "/"))?;
    rustix::process::fchdir(here).map_err(Error::of("change to", "."))
}
