//! The pair of sockets that carries a connection's bytes.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use latlab_wire::streams::Shadow;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::sys::socket::{SO_PASSRIGHTS, int_option, set_option};

/// Bytes that a sender may be ahead of its receiver. With the default of 208 KiB, writes of 128 KiB wait for the reader
/// each time.
const SEND_BUFFER_BYTES: i32 = 1 << 20;

/// A kind of shadow that this kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Unix,
    Tcp,
}

impl Kind {
    /// The kind for a wish; the reason if the kernel lacks it.
    pub fn choose(wish: Shadow) -> Result<Kind, String> {
        let closes = can_keep_descriptors_out();
        match wish {
            Shadow::Tcp => Ok(Kind::Tcp),
            Shadow::Auto if !closes => Ok(Kind::Tcp),
            Shadow::Auto | Shadow::Unix if closes => Ok(Kind::Unix),
            Shadow::Auto | Shadow::Unix => Err(
                "this kernel cannot keep descriptors from passing through AF_UNIX sockets \
                 (SO_PASSRIGHTS, Linux 6.16)"
                    .into(),
            ),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Kind::Unix => "unix",
            Kind::Tcp => "tcp",
        }
    }

    /// A connected pair, in the caller's network namespace.
    pub fn pair(self) -> io::Result<(OwnedFd, OwnedFd)> {
        match self {
            Kind::Unix => unix_pair(),
            Kind::Tcp => tcp_pair(),
        }
    }
}

fn can_keep_descriptors_out() -> bool {
    unix_sockets()
        .is_ok_and(|(one, _)| int_option(one.as_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS).is_ok())
}

fn unix_sockets() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    socketpair(family, kind, SocketFlags::CLOEXEC, None)
}

fn unix_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = unix_sockets()?;
    for end in [&one, &other] {
        set_int(end.as_fd(), SO_PASSRIGHTS, 0)?;
        widen(end.as_fd());
    }
    Ok((one, other))
}

fn tcp_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let from = one.local_addr()?;
    loop {
        // Programs have sockets in this namespace, though none that they could connect.
        let (other, peer) = listener.accept()?;
        if peer == from {
            return Ok((one.into(), other.into()));
        }
    }
}

/// Beyond the machine's limit for unprivileged processes, if we may.
fn widen(socket: BorrowedFd<'_>) {
    let forced = set_int(socket, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES);
    if forced.is_err() {
        set_int(socket, libc::SO_SNDBUF, SEND_BUFFER_BYTES).ok();
    }
}

fn set_int(socket: BorrowedFd<'_>, name: i32, value: i32) -> Result<(), Errno> {
    set_option(socket, libc::SOL_SOCKET, name, &value.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{read, write};

    #[test]
    fn bytes_pass_through_each_kind_and_an_end_is_seen() {
        for kind in [Kind::Tcp, Kind::choose(Shadow::Auto).unwrap()] {
            let (one, other) = kind.pair().unwrap();
            write(&one, b"there").unwrap();
            let mut buffer = [0; 16];
            assert_eq!(read(&other, &mut buffer).unwrap(), 5);
            write(&other, b"back").unwrap();
            assert_eq!(read(&one, &mut buffer).unwrap(), 4);
            drop(one);
            assert_eq!(read(&other, &mut buffer).unwrap(), 0);
        }
    }

    #[test]
    fn descriptors_do_not_pass_through_a_pair_of_unix_sockets() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::mem::MaybeUninit;
        if Kind::choose(Shadow::Auto) != Ok(Kind::Unix) {
            return;
        }
        let (one, _other) = Kind::Unix.pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [one.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        let bytes = [io::IoSlice::new(b"x")];
        let error = sendmsg(&one, &bytes, &mut control, SendFlags::empty()).unwrap_err();
        assert_eq!(error, Errno::PERM);
    }
}
