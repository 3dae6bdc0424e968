//! Network namespaces: making them, pinning them to a path, entering them.
//!
//! A namespace lives as long as something refers to it. Ours are pinned by a bind mount of the
//! namespace's file, as `ip netns` does, at a path of the caller's choice: it then needs no
//! process, survives latlab, and removing the mount removes everything inside.
//!
//! A thread, not a process, is in a network namespace. So all entering happens on short-lived
//! threads that end there: no caller can forget to go back, and no pool's thread is poisoned.
//!
//! Making one costs about 0.35 ms of kernel time (`unshare`), ten times the rest together, and the
//! kernel lets several CPUs do it at once: [`create_all`] uses a thread for each. Unmounting
//! costs 20 µs; the kernel tears the namespace down afterwards, in the background.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use latlab_netlink::{Handle, LinkChange};
use latlab_wire::quiet::QUIET_IPV6;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::Error;
use super::file::if_there;

/// The calling thread's network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

#[derive(Debug, Clone)]
pub struct NewNetNs {
    /// Where it is to be pinned; must not exist.
    pub path: PathBuf,
    /// Settings beyond those that every namespace gets: path below `/proc/sys` and value.
    pub sysctls: &'static [(&'static str, &'static str)],
}

/// An open network namespace; it exists at least as long as this value.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

impl NetNs {
    pub fn current() -> Result<Self, Error> {
        let file = File::open(OWN).map_err(Error::of("open network namespace", OWN))?;
        Ok(Self { file })
    }

    /// The namespace pinned at `path`. An ordinary file there, such as one that a reboot left
    /// behind without its mount, is not taken for one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let action = "open network namespace";
        let file = File::open(path).map_err(Error::of(action, path.display()))?;
        let stat = rustix::fs::fstatfs(&file).map_err(Error::of(action, path.display()))?;
        if stat.f_type != libc::NSFS_MAGIC {
            let reason = "it is a plain file; the namespace is gone";
            let kind = io::ErrorKind::NotFound;
            return Err(Error::because(action, path.display(), kind, reason));
        }
        Ok(Self { file })
    }

    /// A new namespace that nothing pins, with its loopback up. It ends with this value and what runs in it.
    pub fn fresh() -> Result<Self, Error> {
        on_thread(|| {
            unshare()?;
            start_loopback("a new one")?;
            Self::current()
        })
    }

    /// Pins it at `path`, in the place of the one that is there, if one is.
    pub fn replace(&self, path: &Path) -> Result<(), Error> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // No mount: one who did this before got no further.
            Err(Errno::INVAL) => {}
            unpinned => {
                unpinned.map_err(Error::of("unpin network namespace at", path.display()))?;
            }
        }
        rustix::mount::mount_bind(own, path)
            .map_err(Error::of("pin network namespace at", path.display()))
    }

    /// The kernel's number for the namespace; equal numbers at one time mean the same namespace.
    pub fn inode(&self) -> Result<u64, Error> {
        let stat = self.file.metadata();
        stat.map(|stat| stat.ino())
            .map_err(Error::of("stat", "network namespace"))
    }

    /// Another reference to the same namespace.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let file = self.file.try_clone();
        file.map(|file| Self { file })
            .map_err(Error::of("duplicate", "network namespace"))
    }

    /// Runs `body` on a thread inside the namespace and waits for it. A panic in it goes on here.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, Error> {
        on_thread(|| {
            enter(self.file.as_fd())?;
            Ok(body())
        })
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Moves the calling thread into the namespace for good; for threads and children that end there.
pub fn enter(netns: BorrowedFd<'_>) -> Result<(), Error> {
    move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
        .map_err(Error::of("enter", "network namespace"))
}

/// Makes and pins namespaces whose loopbacks are up, on as many threads as there are CPUs. If one fails, those already
/// made stay for the caller's undo, and the first error is returned. No descriptors are kept: a
/// thousand would be more than a process may usually have.
pub fn create_all(all: &[NewNetNs]) -> Result<(), Error> {
    on_every_cpu(all, make)
}

/// Calls `body` for every item, on as many threads as there are CPUs and items allow. The threads end afterwards, so
/// `body` may leave its thread in any namespace. Stops early on errors and returns the first.
pub fn on_every_cpu<T: Sync, E: Send>(
    items: &[T],
    body: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), E> {
        while !failed.load(Ordering::Relaxed) {
            let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            body(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors.min(items.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut outcome = Ok(());
        for thread in threads {
            let result = thread.join();
            outcome = outcome.and(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        outcome
    })
}

fn make(new: &NewNetNs) -> Result<(), Error> {
    let path = &new.path;
    unshare()?;
    prepare(new)?;
    let pin = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    drop(pin.map_err(Error::of("create", path.display()))?);
    rustix::mount::mount_bind(OWN, path).map_err(|errno| {
        // The caller's undo would find the file too; this keeps a failed attempt invisible.
        let _ = fs::remove_file(path);
        Error::of("pin network namespace at", path.display())(errno)
    })
}

/// Moves the calling thread into a new network namespace that nothing pins.
pub fn unshare() -> Result<(), Error> {
    // SAFETY: NEWNET changes only which network the calling thread sees. It does not unshare the
    // descriptor table or the file system context, which other threads rely on being shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(Error::of("make", "network namespace"))
}

fn prepare(new: &NewNetNs) -> Result<(), Error> {
    // Before any interface exists, so that each copies them.
    for (name, value) in QUIET_IPV6 {
        set_sysctl(&format!("net/ipv6/conf/default/{name}"), value)?;
    }
    for (key, value) in new.sysctls {
        set_sysctl(key, value)?;
    }
    start_loopback(new.path.display())
}

fn start_loopback(name: impl std::fmt::Display) -> Result<(), Error> {
    let up = LinkChange::of("lo").up(true).request();
    Handle::open()
        .and_then(|mut handle| handle.apply(&up))
        .map_err(|error| {
            let (action, reason) = ("prepare network namespace", error.to_string());
            Error::because(action, name, io::ErrorKind::Other, reason)
        })
}

/// Sets a network setting, given below `/proc/sys`, of the calling thread's namespace. One that
/// the kernel does not have, such as those of IPv6 when it has none, needs no setting.
pub fn set_sysctl(key: &str, value: &str) -> Result<(), Error> {
    let written = if_there(fs::write(Path::new("/proc/sys").join(key), value));
    written
        .map(drop)
        .map_err(Error::of("set", format!("{key} to {value}")))
}

pub(crate) fn on_thread<T: Send>(
    body: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, body);
        let thread = thread.map_err(Error::of("start", "a thread"))?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_is_not_a_namespace() {
        let path = std::env::temp_dir().join(format!("latlab-netns-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let error = NetNs::open(&path).unwrap_err();
        assert!(error.is_not_found(), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(NetNs::open(&path).unwrap_err().is_not_found());
    }

    #[test]
    fn the_current_namespace_has_a_stable_number() {
        let (one, two) = (NetNs::current().unwrap(), NetNs::current().unwrap());
        assert_eq!(one.inode().unwrap(), two.inode().unwrap());
    }
}
