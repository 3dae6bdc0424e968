//! Attaches programs to interfaces: at the ingress through tcx (Linux 6.6) or, on older kernels, a filter (`clsact`,
//! direct action); at the egress of a netkit's peer through netkit.
//!
//! Attached programs belong to the interface, not to this process: they stay when the process ends, and end with the
//! interface. Replacing one is atomic. Adding the first `clsact` is not: the kernel removes the interface's queue for an
//! RCU grace period, and frames sent meanwhile are lost. So filters are only the second choice. For the same reason, and
//! because other programs may use it by then, the `clsact` stays when the last filter is gone.
//!
//! A filter has a distinct priority and handle, so it overwrites no other program's, and is removed only if it still is
//! this owner's program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{TC_INGRESS, TcHook, TcHookBuilder};
use rustix::io::Errno;

use super::error::Error;
use super::sys::{self, Hook};
use latlab_bpf::{listen, said};

/// Priority of filters: after those that an administrator numbers, before automatic ones (from 49152 down).
const PRIORITY: u32 = 27_745;

/// Attaches a program, and replaces the one of the same owner if there is one.
pub(super) fn attach(program: BorrowedFd<'_>, hook: Hook, handle: u32) -> Result<(), Error> {
    let device = hook.device();
    match attach_direct(program, hook) {
        Err(Errno::INVAL) if hook == Hook::Ingress(device) => {
            attach_filter(program, device, handle)
        }
        other => other.map_err(|errno| Error::attach("put a program at", device, &errno)),
    }
}

/// Detaches a program. An interface that is gone has none.
pub(super) fn detach(program: BorrowedFd<'_>, hook: Hook, handle: u32) -> Result<(), Error> {
    let device = hook.device();
    match detach_direct(program, hook) {
        Err(Errno::NODEV) => Ok(()),
        Err(Errno::INVAL) if hook == Hook::Ingress(device) => {
            detach_filter(program, device, handle)
        }
        other => other.map_err(|errno| Error::attach("take the program from", device, &errno)),
    }
}

fn attach_direct(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
    let (own, old) = (sys::info(program)?, own_program(program, hook)?);
    match old {
        Some((id, _)) if id == own.id => Ok(()),
        Some((_, old)) => sys::attach(program, hook, Some(old.as_fd())),
        None => sys::attach(program, hook, None),
    }
}

fn detach_direct(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
    match own_program(program, hook)? {
        Some((_, old)) => sys::detach(old.as_fd(), hook),
        None => Ok(()),
    }
}

/// The attached program that shares a map with this one: it is of the same owner, perhaps a previous daemon's.
fn own_program(program: BorrowedFd<'_>, hook: Hook) -> Result<Option<(u32, OwnedFd)>, Errno> {
    let own = sys::info(program)?;
    for id in sys::attached(hook)? {
        // A program may be detached meanwhile.
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

/// Whether a program with this map (its id, and opened) is attached.
pub(super) fn is_attached(hook: Hook, (map, map_file): (u32, BorrowedFd<'_>), handle: u32) -> bool {
    let has_it = |id: &u32| maps_of(*id).is_some_and(|maps| maps.contains(&map));
    match sys::attached(hook) {
        Ok(ids) => ids.iter().any(has_it),
        Err(Errno::INVAL) if matches!(hook, Hook::Ingress(_)) => {
            tc(map_file, hook.device(), handle)
                .query()
                .is_ok_and(|id| has_it(&id))
        }
        Err(_) => false,
    }
}

fn maps_of(id: u32) -> Option<Vec<u32>> {
    let program = sys::program(id).ok()?;
    Some(sys::info(program.as_fd()).ok()?.maps)
}

fn is_kin(program: BorrowedFd<'_>, id: u32) -> bool {
    let own = sys::info(program).map(|info| info.maps).unwrap_or_default();
    maps_of(id).is_some_and(|maps| maps.iter().any(|map| own.contains(map)))
}

/// Our filter at an interface. Queries and removals do not use the program.
fn tc(program: BorrowedFd<'_>, device: u32, handle: u32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(i32::try_from(device).unwrap_or(i32::MAX))
        .replace(false)
        .handle(handle)
        .priority(PRIORITY)
        .hook(TC_INGRESS)
}

fn attach_filter(program: BorrowedFd<'_>, device: u32, handle: u32) -> Result<(), Error> {
    listen();
    let refused = |reason: String| Error::attach("put a filter at", device, &reason);
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

fn detach_filter(program: BorrowedFd<'_>, device: u32, handle: u32) -> Result<(), Error> {
    // No filter, or another program's: ours is gone already.
    let mut there = tc(program, device, handle);
    if !there.query().is_ok_and(|id| is_kin(program, id)) {
        return Ok(());
    }
    listen();
    there
        .detach()
        .map_err(|error| Error::attach("take the filter from", device, &said(&error)))
}
