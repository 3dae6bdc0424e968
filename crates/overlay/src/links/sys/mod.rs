//! Datagrams in bulk: the system calls that the links share, and the memory that they read and write.
//!
//! `unsafe` is here because a message header of the kernel's is made of pointers. Both directions keep
//! them inside of one call: [`Inbox`] points into memory of its own, [`Outbox`] into an arena that it
//! borrows until the call is over.
//!
//! - here: sockets, their options and addresses
//! - `inbox`: messages received, in memory of their own; `buffer`: memory that batches borrow
//! - `outbox`: frames to be sent, gathered from an arena

mod buffer;
mod inbox;
mod outbox;

pub use buffer::Buffer;
pub use inbox::Inbox;
pub use outbox::{Outbox, Report, write_pieces};

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_void, sockaddr_storage};

/// Most bytes in one such call: an IPv4 datagram's payload.
pub const MAX_DATAGRAM: usize = 65_507;

/// Room for the one control message that is sent or expected, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Sets an option of a socket that is a number.
pub fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_bytes(socket, level, option, &value.to_ne_bytes())
}

/// Sets an option of a socket that is a structure.
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

/// Reads an option of a socket that is a number.
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

fn length(len: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(len).expect("a few bytes")
}

/// A packet socket on an interface, with virtio-net headers and everything else that a link needs.
pub fn packet_socket(device: &str) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let name = CString::new(device)?;
    // SAFETY: a string with a zero at its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol yet: nothing is received before the socket is bound to the interface.
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

/// An address in the kernel's form.
#[derive(Clone, Copy)]
pub struct Address {
    storage: sockaddr_storage,
    len: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", read_address(&self.storage))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        // SAFETY: all zeros is a `sockaddr_storage`.
        let mut storage: sockaddr_storage = unsafe { zeroed() };
        let start = (&raw mut storage).cast::<c_void>();
        let len = match address {
            SocketAddr::V4(v4) => {
                let form = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage has room and alignment for every form of address.
                unsafe { start.cast::<libc::sockaddr_in>().write(form) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let form = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { start.cast::<libc::sockaddr_in6>().write(form) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address {
            storage,
            len: length(len),
        }
    }
}

fn read_address(storage: &sockaddr_storage) -> SocketAddr {
    let start = (&raw const *storage).cast::<c_void>();
    if c_int::from(storage.ss_family) == libc::AF_INET6 {
        // SAFETY: the family says which form it has.
        let form = unsafe { start.cast::<libc::sockaddr_in6>().read() };
        let ip = IpAddr::V6(Ipv6Addr::from(form.sin6_addr.s6_addr)).to_canonical();
        SocketAddr::new(ip, u16::from_be(form.sin6_port))
    } else {
        // SAFETY: the storage is large enough; other families give an address that nobody has.
        let form = unsafe { start.cast::<libc::sockaddr_in>().read() };
        let ip = Ipv4Addr::from(form.sin_addr.s_addr.to_ne_bytes());
        SocketAddr::new(ip.into(), u16::from_be(form.sin_port))
    }
}
