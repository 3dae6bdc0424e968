//! A socket at queue 0 of an interface, with its four rings.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::sys::{self, Descriptor, Kind, Memory, Ring};
use crate::sys::set_option;

/// Bytes of a frame's place: a page, the most that the kernel allows.
pub const CHUNK_BYTES: usize = 4096;
/// Frames sent with one call, where the kernel can be asked (Linux 6.17); it sends 32 otherwise.
const SEND_BUDGET: u32 = 1024;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// How long a queue may stay taken by a socket that has gone.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Calls for one batch: one that the kernel does not take at all ends the trying.
const MAX_KICKS: u32 = 1024;

pub(super) struct Port {
    pub(super) socket: OwnedFd,
    pub(super) fill: Ring<u64>,
    pub(super) completion: Ring<u64>,
    pub(super) receive: Option<Ring<Descriptor>>,
    pub(super) send: Ring<Descriptor>,
}

impl Port {
    pub(super) fn open(
        interface: u32,
        memory: &Memory,
        sharing: Option<&Port>,
        ring: u32,
        receives: bool,
    ) -> io::Result<Port> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        if sharing.is_none() {
            sys::register(socket.as_fd(), memory, CHUNK_BYTES as u32)?;
        }
        let fill = Ring::new(socket.as_fd(), Kind::Fill, ring)?;
        let completion = Ring::new(socket.as_fd(), Kind::Completion, ring)?;
        let receive = receives.then(|| Ring::new(socket.as_fd(), Kind::Receive, ring));
        let receive = receive.transpose()?;
        let send = Ring::new(socket.as_fd(), Kind::Send, ring)?;
        // Older kernels have no such option; then a batch takes more calls.
        let (name, budget) = (XDP_MAX_TX_SKB_BUDGET, SEND_BUDGET.min(ring));
        set_option(socket.as_fd(), libc::SOL_XDP, name, &budget).ok();
        bind(&socket, interface, sharing)?;
        Ok(Port {
            socket,
            fill,
            completion,
            receive,
            send,
        })
    }

    /// Has the kernel send what was submitted; says how much it did not take.
    pub(super) fn flush(&mut self) -> io::Result<u32> {
        let mut left = self.send.waiting();
        for _ in 0..MAX_KICKS {
            if left == 0 {
                break;
            }
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                // Its budget or its memory is used up for now, or the link is down.
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::NETDOWN) => return Ok(left),
                Err(error) => return Err(error.into()),
            }
            left = self.send.waiting();
        }
        Ok(left)
    }
}

/// Binds the socket, until a timeout: a queue has one user, and the kernel lets go of the last one's
/// memory in the background.
fn bind(socket: &OwnedFd, interface: u32, sharing: Option<&Port>) -> io::Result<()> {
    let queue = |flags| SocketAddrXdp::new(flags, interface, 0);
    let end = Instant::now() + TIMEOUT;
    loop {
        let bound = match sharing {
            None => net::bind(socket, &queue(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP)),
            // A second socket shares memory and how it was bound; it may not say so again.
            Some(port) => {
                let shared = SocketAddrXdpWithSharedUmem {
                    addr: queue(SocketAddrXdpFlags::XDP_SHARED_UMEM),
                    shared_umem_fd: port.socket.as_fd(),
                };
                net::bind(socket, &shared)
            }
        };
        match bound {
            Err(Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return Ok(result?),
        }
    }
}
