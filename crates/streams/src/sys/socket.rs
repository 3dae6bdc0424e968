//! Sockets of other processes, of which we hold the file: names, options, and calls in their place.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use latlab_wire::streams::parse_sockaddr;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{SocketFlags, accept_with};

use super::listener::last_error;

/// Room for the longest `sockaddr`.
const NAME_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// `linux/socket.h`: whether descriptors may be received through an AF_UNIX socket (Linux 6.16).
pub const SO_PASSRIGHTS: i32 = 83;
/// `linux/sockios.h`: a descriptor of the socket's network namespace.
const SIOCGSKNS: libc::Ioctl = 0x894c;
/// `linux/tcp.h`, not for an unconnected socket.
pub const TCP_CLOSE: u8 = 7;

/// Reads an option into as many bytes as it may have; returns those that the kernel wrote.
pub fn option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    room: usize,
) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0_u8; room];
    let mut length = room as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `bytes` and the new length into `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

pub fn int_option(socket: BorrowedFd<'_>, level: i32, name: i32) -> Result<i32, Errno> {
    let bytes = option(socket, level, name, 4)?;
    bytes
        .try_into()
        .map(i32::from_ne_bytes)
        .map_err(|_| Errno::INVAL)
}

pub fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> Result<(), Errno> {
    // SAFETY: the kernel reads `value` only.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    checked(result).map(drop)
}

/// The kernel's own number of a socket, never used twice. An error for what is no socket.
pub fn cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    sockopt::socket_cookie(socket)
}

/// Whether it is a TCP socket of IPv4 or IPv6.
pub fn is_tcp(socket: BorrowedFd<'_>) -> bool {
    is_inet(socket) && protocol(socket) == Ok(libc::IPPROTO_TCP)
}

/// Whether it may listen for TCP connections: those of Multipath TCP do, and Go's are such.
pub fn takes_tcp(socket: BorrowedFd<'_>) -> bool {
    is_inet(socket)
        && matches!(
            protocol(socket),
            Ok(libc::IPPROTO_TCP | libc::IPPROTO_MPTCP)
        )
}

fn is_inet(socket: BorrowedFd<'_>) -> bool {
    let domain = int_option(socket, libc::SOL_SOCKET, libc::SO_DOMAIN);
    matches!(domain, Ok(libc::AF_INET | libc::AF_INET6))
}

fn protocol(socket: BorrowedFd<'_>) -> Result<i32, Errno> {
    int_option(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// The state of a TCP socket, the first byte of `struct tcp_info`.
pub fn tcp_state(socket: BorrowedFd<'_>) -> Result<u8, Errno> {
    let bytes = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, 1)?;
    bytes.first().copied().ok_or(Errno::INVAL)
}

/// Whether a TCP socket's peer has sent its end: CLOSE_WAIT, LAST_ACK, CLOSING and TIME_WAIT of `net/tcp_states.h`.
pub fn has_peers_end(socket: BorrowedFd<'_>) -> bool {
    matches!(tcp_state(socket), Ok(8 | 9 | 11 | 6))
}

/// The pending error, which is taken from the socket.
pub fn take_error(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    match int_option(socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

type NameOf =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

/// The bytes of the socket's own address.
pub fn local_name(socket: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    name(socket, libc::getsockname)
}

/// The bytes of the address at the other end.
pub fn peer_name(socket: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    name(socket, libc::getpeername)
}

/// The network namespace of a socket, by its inode.
pub fn namespace(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    // SAFETY: the request takes nothing.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) };
    // SAFETY: a new descriptor without another owner.
    let file = checked(result).map(|new| unsafe { OwnedFd::from_raw_fd(new) })?;
    Ok(rustix::fs::fstat(&file)?.st_ino)
}

pub fn local(socket: BorrowedFd<'_>) -> Result<SocketAddr, Errno> {
    parse_sockaddr(&local_name(socket)?).ok_or(Errno::AFNOSUPPORT)
}

pub fn peer(socket: BorrowedFd<'_>) -> Result<SocketAddr, Errno> {
    parse_sockaddr(&peer_name(socket)?).ok_or(Errno::AFNOSUPPORT)
}

fn name(socket: BorrowedFd<'_>, of: NameOf) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0_u8; NAME_BYTES];
    let mut length = NAME_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `bytes` and the real length into `length`.
    let result = unsafe {
        of(
            socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

/// Connects in the socket's own network namespace, whatever ours is, without waiting.
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    without_blocking(socket, || {
        // SAFETY: the kernel reads the bytes of the address only.
        let result = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                address.as_ptr().cast(),
                address.len() as libc::socklen_t,
            )
        };
        checked(result).map(drop)
    })
}

/// Has a connected socket be as it was before.
pub fn disconnect(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    connect(socket, &[0; NAME_BYTES])
}

/// Bytes that a TCP socket has sent and its peer did not acknowledge, and those yet to be sent (tcp(7), SIOCOUTQ).
pub fn unacknowledged(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    checked(result)?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Whether a listening socket has a connection, or another one bytes or an end.
pub fn is_readable(socket: impl AsFd) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).map(|ready| ready > 0)
}

/// The urgent byte that a socket has beside its data and that is not read yet. Inline there is none.
pub fn urgent_byte(socket: impl AsFd) -> Option<u8> {
    use rustix::net::{RecvFlags, recv};
    let flags = RecvFlags::OOB | RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let mut byte = [0; 1];
    let read = recv(socket, &mut byte, flags).map_or(0, |(count, _)| count);
    (read > 0).then_some(byte[0])
}

/// The next connection of a listening socket, without waiting.
pub fn accept(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    without_blocking(socket, || accept_with(socket, SocketFlags::CLOEXEC))
}

/// A time that a call may take (socket(7), SO_RCVTIMEO and SO_SNDTIMEO); none for ever.
pub fn timeout(socket: impl AsFd, of: Timeout) -> Option<Duration> {
    sockopt::socket_timeout(socket, of).ok().flatten()
}

/// Whether calls wait, by the flags of the open file.
pub fn is_blocking(socket: impl AsFd) -> bool {
    fcntl_getfl(socket).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

/// Makes a call on a file whose flags another process set. They are for that moment as we need them.
fn without_blocking<T>(
    socket: BorrowedFd<'_>,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let before = fcntl_getfl(socket)?;
    if before.contains(OFlags::NONBLOCK) {
        return call();
    }
    fcntl_setfl(socket, before | OFlags::NONBLOCK)?;
    let result = call();
    fcntl_setfl(socket, before)?;
    result
}

fn checked(result: libc::c_int) -> Result<libc::c_int, Errno> {
    match result {
        0.. => Ok(result),
        _ => Err(last_error()),
    }
}
