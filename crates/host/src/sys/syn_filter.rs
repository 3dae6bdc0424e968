//! Listening sockets that take no new connection for a while: a filter (socket(7), `SO_ATTACH_FILTER`) drops what would
//! begin one, and the client asks again. Handshakes under way come to their end.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, sock_filter,
};

use super::sockets::set_option;

/// The place of the flags in a TCP header, where a socket's filter begins to read (RFC 9293, 3.1).
const FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;
const WHOLE: u32 = u32::MAX;

const fn step(code: u32, k: u32, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    }
}

/// Drops a segment with SYN and without ACK.
const PROGRAM: [sock_filter; 5] = [
    step(BPF_LD | BPF_B | BPF_ABS, FLAGS, 0),
    step(BPF_ALU | BPF_AND | BPF_K, SYN | ACK, 0),
    step(BPF_JMP | BPF_JEQ | BPF_K, SYN, 1),
    step(BPF_RET | BPF_K, 0, 0),
    step(BPF_RET | BPF_K, WHOLE, 0),
];

/// Has a listening socket of TCP drop new connections. A filter of the program's own stays instead.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    if !is_listening(socket) || !matches!(filter(socket), Filter::None) {
        return Ok(());
    }
    let program = libc::sock_fprog {
        len: PROGRAM.len() as u16,
        filter: PROGRAM.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Removes the filter of [`attach`], which connections have of their listening socket too.
pub fn detach(socket: BorrowedFd<'_>) {
    if matches!(filter(socket), Filter::Ours) {
        // The value is not used.
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32);
    }
}

fn is_listening(socket: BorrowedFd<'_>) -> bool {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    let domain = sockopt::socket_domain(socket);
    let is_ip = matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6));
    let is_stream = sockopt::socket_type(socket) == Ok(SocketType::STREAM);
    is_ip && is_stream && sockopt::socket_acceptconn(socket) == Ok(true)
}

#[derive(Debug, PartialEq, Eq)]
enum Filter {
    None,
    Ours,
    Foreign,
}

fn filter(socket: BorrowedFd<'_>) -> Filter {
    let mut program = [step(0, 0, 0); PROGRAM.len()];
    // Its length is a number of instructions.
    let mut count = program.len() as libc::socklen_t;
    // SAFETY: an open descriptor, and room for `count` instructions.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            program.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    let same = |a: &sock_filter, b: &sock_filter| (a.code, a.k, a.jf) == (b.code, b.k, b.jf);
    let is_ours = || program.iter().zip(&PROGRAM).all(|(a, b)| same(a, b));
    match (got, count as usize) {
        (0, 0) => Filter::None,
        (0, count) if count == PROGRAM.len() && is_ours() => Filter::Ours,
        // A longer one, or one of eBPF, is not shown.
        _ => Filter::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_filtered_listener_takes_no_connection_until_it_is_released() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        attach(listener.as_fd()).unwrap();
        let connect = |ms| TcpStream::connect_timeout(&address, Duration::from_millis(ms));
        connect(100).unwrap_err();
        // Others are left as they are.
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        detach(other.as_fd());
        let client = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        attach(client.as_fd()).unwrap();
        assert_eq!(filter(client.as_fd()), Filter::None);
        assert_eq!(filter(listener.as_fd()), Filter::Ours);
        detach(listener.as_fd());
        assert_eq!(filter(listener.as_fd()), Filter::None);
        connect(5_000).unwrap();
    }
}
