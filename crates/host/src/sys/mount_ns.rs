//! Mount namespaces that hold mounts without a process: pinned to a path as network namespaces are.
//!
//! The kernel copies no such pin into new mount namespaces. So nothing else of the machine keeps the mounts alive, and
//! removing the pin removes them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::io::Errno;
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::named::make_all_downstream;
use super::netns::on_thread;
use super::{Error, mount};

/// For the directories of the mount points.
const ROOT_BYTES: u64 = 1 << 20;

/// Makes a namespace with nothing in it but what `body` mounts in the directories 0, 1 and so on of the directory that
/// it is given, and pins it at `pin`, a new file in a private mount. `at` is a directory for the time until then.
///
/// The kernel pins a namespace only in one with a smaller number, so that no circle can be. Linux 6.18 takes the numbers
/// from a stock of each CPU, and a new namespace may have a smaller one than its maker's. That cannot be on the
/// CPU that numbered the latter, so others are tried.
pub fn pin<E: From<Error> + Send>(
    pin: &Path,
    at: &Path,
    count: usize,
    body: impl FnOnce(&Path) -> Result<(), E> + Send,
) -> Result<(), E> {
    File::create_new(pin).map_err(Error::of("make", pin.display()))?;
    let mut body = Some(body);
    let allowed = rustix::thread::sched_getaffinity(None)
        .map_err(Error::of("ask for", "the CPUs of this thread"))?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    for cpu in std::iter::once(None).chain(allowed.map(Some)) {
        let mut filling = || match body.take() {
            Some(body) => fill(at, count, body),
            None => Ok(()),
        };
        if attempt(pin, cpu, &mut filling)? {
            return Ok(());
        }
    }
    let reason = "every new one has a smaller number than this process's";
    let kind = io::ErrorKind::Unsupported;
    Err(Error::because("pin mount namespace at", pin.display(), kind, reason).into())
}

/// Makes a namespace on a CPU and pins it; once it is pinned, `fill` is called in it. False if it cannot be pinned.
fn attempt<E: From<Error> + Send>(
    pin: &Path,
    cpu: Option<usize>,
    fill: &mut (dyn FnMut() -> Result<(), E> + Send),
) -> Result<bool, E> {
    let (made, namespace) = mpsc::channel::<OwnedFd>();
    let (pinned, verdict) = mpsc::channel::<bool>();
    let inside = move || -> Result<(), E> {
        if let Some(cpu) = cpu {
            let mut only = CpuSet::new();
            only.set(cpu);
            rustix::thread::sched_setaffinity(None, &only).map_err(Error::of("go to CPU", cpu))?;
        }
        // SAFETY: gives the calling thread its own mount namespace and, with it, its own root and working directory.
        // The descriptor table stays shared. Other threads keep what they have, and this one ends afterwards.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .map_err(Error::of("make", "mount namespace"))?;
        let own = File::open(mount::OWN).map_err(Error::of("open", mount::OWN))?;
        // The other end is there until this thread has ended.
        let _ = made.send(own.into());
        match verdict.recv() {
            Ok(true) => fill(),
            _ => Ok(()),
        }
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("mounts".into());
        let thread = builder
            .spawn_scoped(scope, inside)
            .map_err(Error::of("start", "a thread"))?;
        let bound = namespace.recv().map_or(Ok(()), |namespace| {
            let own = format!("/proc/self/fd/{}", namespace.as_raw_fd());
            rustix::mount::mount_bind(own, pin)
        });
        // A thread that failed does not wait for it.
        let _ = pinned.send(bound.is_ok());
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        match bound {
            Ok(()) => Ok(true),
            Err(Errno::INVAL) => Ok(false),
            Err(errno) => Err(Error::of("pin mount namespace at", pin.display())(errno).into()),
        }
    })
}

/// Mounts in the calling thread's namespace, a new one, what is to be there, and nothing else.
fn fill<E: From<Error>>(
    at: &Path,
    count: usize,
    body: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    make_all_downstream()?;
    mount::tmpfs(at, ROOT_BYTES)?;
    for number in 0..count {
        let directory = at.join(number.to_string());
        fs::create_dir(&directory).map_err(Error::of("make", directory.display()))?;
    }
    body(at)?;
    let tree = mount::clone_tree(at, true)?;
    mount::leave_chroot()?;
    // The machine's mounts could otherwise not be unmounted for as long as the node is there.
    let root = Path::new("/");
    mount::unmount_within(root)?;
    Ok(mount::attach(tree, root)?)
}

/// Copies of the mounts of a pinned namespace, in their order.
pub fn mounts(pin: &Path, count: usize) -> Result<Vec<OwnedFd>, Error> {
    on_thread(|| {
        let namespace = File::open(pin).map_err(Error::of("open", pin.display()))?;
        let kind = rustix::fs::fstatfs(&namespace).map_err(Error::of("look at", pin.display()))?;
        if kind.f_type != libc::NSFS_MAGIC {
            let (kind, reason) = (io::ErrorKind::NotFound, "the namespace is gone");
            return Err(Error::because("enter", pin.display(), kind, reason));
        }
        // SAFETY: only this thread gets a root and a working directory apart, and it ends afterwards.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
            .map_err(Error::of("divide", "root directories"))?;
        // The uppermost mount at its root is the root then.
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(Error::of("enter", "the node's mount namespace"))?;
        let trees = (0..count).map(|number| {
            let place = PathBuf::from(format!("/{number}"));
            mount::clone_tree(&place, false)
        });
        trees.collect()
    })
}
