//! Names and options of streams, which are their anchors'.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::socket_oobinline;

use super::connection::{End, Shadow};
use super::held::{Held, read_length};
use super::state::Supervisor;
use crate::options::{self, Place};
use crate::shadow::Kind;
use crate::sys::socket;

/// The longest option value that is passed on.
const MAX_OPTION_BYTES: usize = 1024;

impl Supervisor {
    /// `getsockname`
    pub(super) fn local_name(&self, held: &Held) {
        self.name(held, |shadow, _| Ok(&shadow.end.local));
    }

    /// `getpeername`
    pub(super) fn peer_name(&self, held: &Held) {
        self.name(held, |shadow, file| match shadow.connection.kind {
            Kind::Unix => Ok(&shadow.end.peer),
            // TCP says when both ends have closed.
            Kind::Tcp => socket::peer_name(file.as_fd()).map(|_| &shadow.end.peer),
        });
    }

    fn name(
        &self,
        held: &Held,
        of: impl for<'a> Fn(&Shadow<'a>, &OwnedFd) -> Result<&'a Vec<u8>, Errno>,
    ) {
        let Some((file, shadow)) = self.shadow(held) else {
            return held.proceed();
        };
        let named = of(&shadow, &file).and_then(|name| held.write_name(name));
        held.answer(named);
    }

    /// The file at a call's first argument, if it is a shadow.
    fn shadow(&self, held: &Held) -> Option<(OwnedFd, Shadow<'_>)> {
        let (file, cookie) = held.socket()?;
        Some((file, self.connections.of_shadow(cookie)?))
    }

    pub(super) fn get_option(&self, held: &Held) {
        let Some((_, shadow)) = self.shadow(held) else {
            return held.proceed();
        };
        let (level, name) = (held.call.int(1), held.call.int(2));
        let result = match options::place(shadow.connection.kind, level, name) {
            Place::Own | Place::Watched => return held.proceed(),
            Place::Anchor | Place::Both | Place::Told => get_option(held, shadow.end),
            Place::Nowhere => Err(Errno::NOPROTOOPT),
        };
        held.answer(result);
    }

    /// `ioctl` for bytes that the peer has not acknowledged (tcp(7), SIOCOUTQ): its system has them all.
    pub(super) fn unacknowledged(&self, held: &Held) {
        let shadow = self.shadow(held);
        if shadow.is_none_or(|(_, shadow)| shadow.connection.kind == Kind::Tcp) {
            return held.proceed();
        }
        let memory = held.memory();
        let written = memory.and_then(|memory| memory.write(held.call.arguments[2], &[0; 4]));
        held.answer(written);
    }

    pub(super) fn set_option(&mut self, held: &Held) {
        let Some((file, cookie)) = held.socket() else {
            return held.proceed();
        };
        let (level, name) = (held.call.int(1), held.call.int(2));
        let Some(shadow) = self.connections.of_shadow(cookie) else {
            return self.set_option_of_listener(held, &file, cookie);
        };
        let (shadow_file, anchor) = (file.as_fd(), shadow.end.anchor.as_fd());
        let result = match options::place(shadow.connection.kind, level, name) {
            Place::Own => return held.proceed(),
            Place::Watched => set_option(held, |value| {
                socket::set_option(shadow_file, level, name, value)
            }),
            Place::Anchor => set_option(held, |value| options::set(anchor, level, name, value)),
            Place::Both => set_option(held, |value| {
                socket::set_option(shadow_file, level, name, value)?;
                options::set(anchor, level, name, value)
            }),
            Place::Told => Err(Errno::OPNOTSUPP),
            Place::Nowhere => Err(Errno::NOPROTOOPT),
        };
        let is_linger = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
        if is_linger && result.is_ok() && options::resets_at_close(shadow_file) {
            // A second urgent byte would make the first one data, and inline each is.
            let is_inline = socket_oobinline(&file).unwrap_or(true);
            if !is_inline && socket::urgent_byte(&file).is_none() {
                self.arm_reset(&shadow, &file);
            }
        }
        held.answer(result);
    }

    /// A listening socket whose connections may no longer be streams is forgotten. All other sockets are the kernel's.
    fn set_option_of_listener(&mut self, held: &Held, file: &OwnedFd, cookie: u64) {
        let (level, name) = (held.call.int(1), held.call.int(2));
        let decisive = [
            (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
            (libc::SOL_SOCKET, libc::SO_LINGER),
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
        ];
        if !decisive.contains(&(level, name)) || self.registry.listener(cookie).is_none() {
            return held.proceed();
        }
        let result = set_option(held, |value| {
            socket::set_option(file.as_fd(), level, name, value)
        });
        if !options::allow_streams(file.as_fd()) {
            self.registry.forget(cookie);
        }
        held.answer(result);
    }
}

fn set_option(held: &Held, set: impl FnOnce(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
    let length = usize::try_from(held.call.int(4)).map_err(|_| Errno::INVAL)?;
    let value = held
        .memory()?
        .read(held.call.arguments[3], length.min(MAX_OPTION_BYTES))?;
    set(&value)
}

fn get_option(held: &Held, end: &End) -> Result<(), Errno> {
    let (level, name) = (held.call.int(1), held.call.int(2));
    let memory = held.memory()?;
    let (value_at, length_at) = (held.call.arguments[3], held.call.arguments[4]);
    let room = read_length(&memory, length_at)?;
    let value = socket::option(end.anchor.as_fd(), level, name, room.min(MAX_OPTION_BYTES))?;
    memory.write(value_at, &value)?;
    memory.write(length_at, &(value.len() as u32).to_ne_bytes())
}
