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

/// Whether a system call that gives zero has succeeded.
fn checked(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_bytes(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            length(value.len()),
        )
    })
}

pub fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = length(size_of::<c_int>());
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}

pub(super) fn length(len: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(len).expect("a few bytes")
}

/// A promiscuous packet socket on an interface, with virtio-net headers and VLAN tags as auxiliary data. It receives no
/// frame to the interface's own address.
pub fn packet_socket(device: &str) -> io::Result<OwnedFd> {
    let name = CString::new(device)?;
    // SAFETY: a string with a zero at its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let socket = silent_socket()?;
    leave_out_own(socket.as_fd())?;
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
    checked(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length(size_of::<libc::sockaddr_ll>()),
        )
    })?;
    join_all(socket.as_fd(), index)?;
    Ok(socket)
}

/// A packet socket that receives nothing. An interface is promiscuous while it is open.
pub fn promiscuous_socket(index: u32) -> io::Result<OwnedFd> {
    let socket = silent_socket()?;
    join_all(socket.as_fd(), index)?;
    Ok(socket)
}

/// A packet socket of no protocol, which receives nothing before it is bound to one.
fn silent_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    Ok(socket_with(family, kind, flags, None)?)
}

/// Makes an interface promiscuous for a packet socket's life.
fn join_all(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // `struct packet_mreq`: the interface, the kind, the length of an address, the address.
    let mut request = [0; 16];
    request[..4].copy_from_slice(&index.to_ne_bytes());
    request[4..6].copy_from_slice(&(libc::PACKET_MR_PROMISC as u16).to_ne_bytes());
    let option = libc::PACKET_ADD_MEMBERSHIP;
    set_bytes(socket, libc::SOL_PACKET, option, &request)
}

/// Has the kernel leave out frames to the interface's own address (`PACKET_HOST`): they are the host's, and a switch
/// would flood them to all guests as unknown. A filter, so that the host's traffic costs neither a copy nor a wake-up.
fn leave_out_own(socket: BorrowedFd<'_>) -> io::Result<()> {
    let instruction = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let kind = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, kind),
        libc::sock_filter {
            jf: 1,
            ..instruction(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                u32::from(libc::PACKET_HOST),
            )
        },
        instruction(libc::BPF_RET | libc::BPF_K, 0),
        instruction(libc::BPF_RET | libc::BPF_K, u32::MAX),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the structure, and as many instructions as it says from the array, during the call.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            length(size_of::<libc::sock_fprog>()),
        )
    })
}
