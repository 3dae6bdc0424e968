//! Sockets of UDP links.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::links::sys;

/// Size of socket buffers, in bytes: a few full batches of large frames.
const SOCKET_BYTES: i32 = 8 << 20;

/// A UDP socket at an address; with a port, in the address's `SO_REUSEPORT` group.
pub(super) fn socket(local: SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    let (level, option, want) = if local.is_ipv4() {
        (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_WANT,
        )
    } else {
        sockopt::set_ipv6_v6only(&socket, true)?;
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_WANT,
        )
    };
    sys::set(socket.as_fd(), level, option, want)?;
    enlarge_buffers(socket.as_fd());
    if local.port() != 0 {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &local)?;
    Ok(socket)
}

/// Requests large buffers: beyond the system's limit if permitted, else up to it.
pub(in crate::links) fn enlarge_buffers(socket: BorrowedFd<'_>) {
    for (forced, modest) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if sys::set(socket, libc::SOL_SOCKET, forced, SOCKET_BYTES).is_err() {
            // Smaller buffers drop sooner, which is counted.
            sys::set(socket, libc::SOL_SOCKET, modest, SOCKET_BYTES).ok();
        }
    }
}
