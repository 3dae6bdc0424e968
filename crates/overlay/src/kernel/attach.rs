//! Putting programs at interfaces. For what comes in: by themselves (tcx) from Linux 6.6 on, as a filter
//! (`clsact`, direct action) before. For what the other end of a netkit pair sends: at this end's peer.
//!
//! Either belongs to the interface, not to this process: it stays when the process goes, and goes when
//! the interface does. Replacing one is atomic, no frame passes in between. Putting the first one there
//! is not, with `clsact`: the kernel takes the interface's queue away for as long as readers of it may
//! take, and loses what is sent meanwhile, whoever sends it. So that is only the second choice. For the same reason the
//! `clsact` stays when the last filter has gone; others may have come to use it, too.
//!
//! A filter has a priority and a handle of its own, so that none of others is overwritten, and is taken away only if it
//! still is a program of this owner.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{TC_INGRESS, TcHook, TcHookBuilder};
use rustix::io::Errno;

use super::error::Error;
use super::sys;
pub(super) use super::sys::Hook;
use latlab_bpf::{listen, said};

/// The priority of filters: behind those that a person numbers, before those that the kernel does (from 49152 down).
const PRIORITY: u32 = 27_745;

/// Puts the program there, instead of the one of the same owner that may be there.
pub(super) fn attach(program: BorrowedFd<'_>, hook: Hook, handle: u32) -> Result<(), Error> {
    let device = hook.device();
    match stand(program, hook) {
        Err(Errno::INVAL) if hook == Hook::Entrance(device) => filter(program, device, handle),
        other => other.map_err(|errno| Error::Attach {
            action: "put a program at",
            device,
            reason: errno.to_string(),
        }),
    }
}

/// Takes it away. An interface that is gone has none any more.
pub(super) fn detach(program: BorrowedFd<'_>, hook: Hook, handle: u32) -> Result<(), Error> {
    let device = hook.device();
    match leave(program, hook) {
        Err(Errno::NODEV) => Ok(()),
        Err(Errno::INVAL) if hook == Hook::Entrance(device) => unfilter(program, device, handle),
        other => other.map_err(|errno| Error::Attach {
            action: "take the program from",
            device,
            reason: errno.to_string(),
        }),
    }
}

fn stand(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
    let (own, old) = (sys::info(program)?, kin(program, hook)?);
    match old {
        Some((id, _)) if id == own.id => Ok(()),
        Some((_, old)) => sys::put(program, hook, Some(old.as_fd())),
        None => sys::put(program, hook, None),
    }
}

fn leave(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
    match kin(program, hook)? {
        Some((_, old)) => sys::take(old.as_fd(), hook),
        None => Ok(()),
    }
}

/// The program there that shares a map with this one: of the same owner, perhaps of a daemon
/// before.
fn kin(program: BorrowedFd<'_>, hook: Hook) -> Result<Option<(u32, OwnedFd)>, Errno> {
    let own = sys::info(program)?;
    for id in sys::standing(hook)? {
        // One that goes away meanwhile is nobody's.
        let Ok(other) = sys::program(id) else {
            continue;
        };
        let maps = sys::info(other.as_fd())?.maps;
        if maps.iter().any(|map| own.maps.contains(map)) {
            return Ok(Some((id, other)));
        }
    }
    Ok(None)
}

/// Whether a program with this map is there; the map as its number, and opened.
pub(super) fn is_there(hook: Hook, (map, map_file): (u32, BorrowedFd<'_>), handle: u32) -> bool {
    let has_it = |id: &u32| maps_of(*id).is_some_and(|maps| maps.contains(&map));
    match sys::standing(hook) {
        Ok(ids) => ids.iter().any(has_it),
        Err(Errno::INVAL) if matches!(hook, Hook::Entrance(_)) => {
            tc(map_file, hook.device(), handle)
                .query()
                .is_ok_and(|id| has_it(&id))
        }
        Err(_) => false,
    }
}

/// The maps of a program, unless it has gone.
fn maps_of(id: u32) -> Option<Vec<u32>> {
    let program = sys::program(id).ok()?;
    Some(sys::info(program.as_fd()).ok()?.maps)
}

/// Whether a program shares a map with this one.
fn is_kin(program: BorrowedFd<'_>, id: u32) -> bool {
    let own = sys::info(program).map(|info| info.maps).unwrap_or_default();
    maps_of(id).is_some_and(|maps| maps.iter().any(|map| own.contains(map)))
}

/// A filter of ours. Asking for one and taking it away make no use of the program.
fn tc(program: BorrowedFd<'_>, device: u32, handle: u32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(i32::try_from(device).unwrap_or(i32::MAX))
        .replace(false)
        .handle(handle)
        .priority(PRIORITY)
        .hook(TC_INGRESS)
}

fn filter(program: BorrowedFd<'_>, device: u32, handle: u32) -> Result<(), Error> {
    listen();
    let refused = |reason: String| Error::Attach {
        action: "put a filter at",
        device,
        reason,
    };
    let mut hook = tc(program, device, handle)
        .create()
        .map_err(|error| refused(said(&error)))?;
    match tc(program, device, handle).query() {
        Ok(id) if is_kin(program, id) => {
            hook.replace(true);
        }
        Ok(_) => {
            let reason =
                format!("another program's is there (priority {PRIORITY}, handle {handle})");
            return Err(refused(reason));
        }
        Err(_) => {}
    }
    let attached = hook.attach();
    attached.map(drop).map_err(|error| refused(said(&error)))
}

fn unfilter(program: BorrowedFd<'_>, device: u32, handle: u32) -> Result<(), Error> {
    // None, or somebody else's: ours has gone already.
    let mut there = tc(program, device, handle);
    if !there.query().is_ok_and(|id| is_kin(program, id)) {
        return Ok(());
    }
    listen();
    there.detach().map_err(|error| Error::Attach {
        action: "take the filter from",
        device,
        reason: said(&error),
    })
}
