//! Putting programs at interfaces: a filter (`clsact`, direct action) on what comes in.
//!
//! The filter belongs to the interface, not to this process: it stays when the process goes, and goes
//! when the interface does. Replacing one is atomic, no frame passes in between.

use std::os::fd::BorrowedFd;

use libbpf_rs::{TC_INGRESS, TcHook, TcHookBuilder};

use super::error::{Error, listen, said};

fn hook(program: BorrowedFd<'_>, device: u32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(i32::try_from(device).unwrap_or(i32::MAX))
        .replace(true)
        .handle(1)
        .priority(1)
        .hook(TC_INGRESS)
}

/// Puts the program at the interface, instead of the one that may be there.
pub(super) fn attach(program: BorrowedFd<'_>, device: u32) -> Result<(), Error> {
    listen();
    hook(program, device)
        .create()
        .and_then(|mut hook| hook.attach())
        .map(drop)
        .map_err(|error| Error::Attach {
            action: "put a filter at",
            device,
            reason: said(&error),
        })
}

/// Takes it away. An interface that is gone has none any more.
pub(super) fn detach(program: BorrowedFd<'_>, device: u32) -> Result<(), Error> {
    listen();
    hook(program, device).detach().or_else(|error| {
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
