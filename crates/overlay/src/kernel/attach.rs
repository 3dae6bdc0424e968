//! Putting programs at interfaces. For what comes in: by themselves (tcx) from Linux 6.6 on, as a filter
//! (`clsact`, direct action) before. For what the other end of a netkit pair sends: at this end's peer.
//!
//! Either belongs to the interface, not to this process: it stays when the process goes, and goes when
//! the interface does. Replacing one is atomic, no frame passes in between. Putting the first one there
//! is not, with `clsact`: the kernel takes the interface's queue away for as long as readers of it may
//! take, and loses what is sent meanwhile, whoever sends it. So that is only the second choice.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{TC_INGRESS, TcHook, TcHookBuilder};
use rustix::io::Errno;

use super::error::Error;
use super::sys;
pub(super) use super::sys::Hook;
use latlab_bpf::{listen, said};

/// Puts the program there, instead of the one of the same owner that may be there.
pub(super) fn attach(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Error> {
    let device = hook.device();
    match stand(program, hook) {
        Err(Errno::INVAL) if hook == Hook::Entrance(device) => filter(program, device),
        other => other.map_err(|errno| Error::Attach {
            action: "put a program at",
            device,
            reason: errno.to_string(),
        }),
    }
}

/// Takes it away. An interface that is gone has none any more.
pub(super) fn detach(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Error> {
    let device = hook.device();
    match leave(program, hook) {
        Err(Errno::NODEV) => Ok(()),
        Err(Errno::INVAL) if hook == Hook::Entrance(device) => unfilter(program, device),
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

fn tc(program: BorrowedFd<'_>, device: u32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(i32::try_from(device).unwrap_or(i32::MAX))
        .replace(true)
        .handle(1)
        .priority(1)
        .hook(TC_INGRESS)
}

fn filter(program: BorrowedFd<'_>, device: u32) -> Result<(), Error> {
    listen();
    tc(program, device)
        .create()
        .and_then(|mut hook| hook.attach())
        .map(drop)
        .map_err(|error| Error::Attach {
            action: "put a filter at",
            device,
            reason: said(&error),
        })
}

fn unfilter(program: BorrowedFd<'_>, device: u32) -> Result<(), Error> {
    listen();
    tc(program, device).detach().or_else(|error| {
        let is_gone = rustix::net::netdevice::index_to_name(
            &rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::DGRAM,
                None,
            )
            .map_err(|errno| Error::Attach {
                action: "look at",
                device,
                reason: errno.to_string(),
            })?,
            device,
        )
        .is_err();
        match is_gone {
            true => Ok(()),
            false => Err(Error::Attach {
                action: "take the filter from",
                device,
                reason: said(&error),
            }),
        }
    })
}
