//! Sockets and their options.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_int;

/// Maximum payload of an IPv4 datagram, and so of one call.
pub const MAX_DATAGRAM: usize = 65_507;

/// Room for one control message, with the kernel's alignment.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control(pub [u8; 64]);

pub fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_bytes(socket, level, option, &value.to_ne_bytes())
}

pub fn set_bytes(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            length(value.len()),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = length(size_of::<c_int>());
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if done == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn length(len: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(len).expect("a few bytes")
}

/// A promiscuous packet socket on an interface, with virtio-net headers and VLAN tags as auxiliary data.
pub fn packet_socket(device: &str) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let name = CString::new(device)?;
    // SAFETY: a string with a zero at its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol yet: the socket receives nothing before it is bound to the interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    for option in [
        libc::PACKET_VNET_HDR,
        libc::PACKET_AUXDATA,
        libc::PACKET_IGNORE_OUTGOING,
    ] {
        set(socket.as_fd(), libc::SOL_PACKET, option, 1)?;
    }
    // SAFETY: all zeros is an address of this form.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    // SAFETY: the pointer and the length are those of the structure.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length(size_of::<libc::sockaddr_ll>()),
        )
    };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    // `struct packet_mreq`: the interface, the kind, the length of an address, the address.
    let mut request = [0; 16];
    request[..4].copy_from_slice(&index.to_ne_bytes());
    request[4..6].copy_from_slice(&(libc::PACKET_MR_PROMISC as u16).to_ne_bytes());
    set_bytes(
        socket.as_fd(),
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )?;
    Ok(socket)
}
