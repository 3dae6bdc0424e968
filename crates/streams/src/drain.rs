//! The bytes that a shadow has not delivered yet: taken from it, and sent through an anchor instead.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::shadow::Kind;
use crate::sys::socket::{self, int_option, set_option};

/// Time for bytes to arrive through a shadow between hosts, and for an anchor to take them.
const TIMEOUT: Duration = Duration::from_secs(5);
const INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};
/// More than both buffers of a shadow hold.
const MAX_BYTES: usize = 64 << 20;
const READ_BYTES: usize = 256 << 10;
/// Bytes that each new TCP socket takes at once.
const SMALL_BYTES: usize = 16 << 10;

/// How a shadow's bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// More may follow.
    Open,
    /// The peer sends no more.
    Finished,
    /// The peer is gone and did not read all that it was sent.
    Reset,
}

/// Takes all that a shadow has for its program. No program runs that would send more. `sender` is its other end, unless
/// that is closed. Errors: it does not arrive in time.
pub fn take(
    shadow: &OwnedFd,
    sender: Option<&OwnedFd>,
    kind: Kind,
) -> Result<(Vec<u8>, Tail), Errno> {
    let end = Instant::now() + TIMEOUT;
    let (mut bytes, mut length) = (Vec::new(), 0);
    let tail = loop {
        bytes.resize(length + READ_BYTES, 0);
        // Asked before: what arrives in between would be left behind.
        let is_under_way = is_under_way(sender, kind)?;
        match recv(shadow, &mut bytes[length..], RecvFlags::DONTWAIT) {
            // A program may also have said that it reads no more, which is no end of its peer's for TCP.
            Ok((0, _)) => match kind == Kind::Unix || socket::has_peers_end(shadow.as_fd()) {
                true => break Tail::Finished,
                false => break Tail::Open,
            },
            Ok((count, _)) => length += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if is_under_way => await_event(shadow, PollFlags::IN, end)?,
            Err(Errno::AGAIN) => break Tail::Open,
            Err(Errno::CONNRESET | Errno::PIPE) => break Tail::Reset,
            Err(error) => return Err(error),
        }
        if length > MAX_BYTES {
            return Err(Errno::NOBUFS);
        }
    };
    bytes.truncate(length);
    Ok((bytes, tail))
}

/// Whether bytes or an end are on the wire between hosts.
fn is_under_way(sender: Option<&OwnedFd>, kind: Kind) -> Result<bool, Errno> {
    match (kind, sender) {
        (Kind::Unix, _) => Ok(false),
        (Kind::Tcp, None) => Ok(true),
        (Kind::Tcp, Some(sender)) => Ok(socket::unacknowledged(sender.as_fd())? > 0),
    }
}

/// Sends bytes through an anchor. The peer's program does not read them now, so there has to be room for all.
pub fn put(anchor: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    if bytes.len() > SMALL_BYTES {
        widen(anchor, bytes.len());
    }
    let end = Instant::now() + TIMEOUT;
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while !bytes.is_empty() {
        match send(anchor, bytes, flags) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => await_event(anchor, PollFlags::OUT, end)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn widen(anchor: &OwnedFd, bytes: usize) {
    let (anchor, level) = (anchor.as_fd(), libc::SOL_SOCKET);
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    // The kernel doubles it, which the administration of the bytes may need.
    if int_option(anchor, level, libc::SO_SNDBUF).is_ok_and(|room| room / 2 < wanted) {
        set_option(anchor, level, libc::SO_SNDBUFFORCE, &wanted.to_ne_bytes()).ok();
    }
}

fn await_event(socket: &OwnedFd, event: PollFlags, end: Instant) -> Result<(), Errno> {
    if Instant::now() > end {
        return Err(Errno::TIMEDOUT);
    }
    match poll(&mut [PollFd::new(socket, event)], Some(&INTERVAL)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::streams::Shadow;
    use rustix::io::write;
    use rustix::net::{Shutdown, shutdown};

    #[test]
    fn bytes_and_the_end_behind_them_are_taken() {
        for kind in [Kind::Tcp, Kind::choose(Shadow::Auto).unwrap()] {
            let (one, other) = kind.pair().unwrap();
            assert_eq!(take(&other, Some(&one), kind), Ok((Vec::new(), Tail::Open)));
            write(&one, &[7; 100_000]).unwrap();
            let (bytes, tail) = take(&other, Some(&one), kind).unwrap();
            assert_eq!((bytes, tail), (vec![7; 100_000], Tail::Open));
            write(&one, b"last").unwrap();
            shutdown(&one, Shutdown::Write).unwrap();
            let (bytes, tail) = take(&other, Some(&one), kind).unwrap();
            assert_eq!((&bytes[..], tail), (&b"last"[..], Tail::Finished));
        }
    }

    #[test]
    fn an_end_that_was_closed_unread_is_a_reset() {
        let kind = Kind::choose(Shadow::Auto).unwrap();
        let (one, other) = kind.pair().unwrap();
        write(&other, b"unread").unwrap();
        write(&one, b"before").unwrap();
        drop(one);
        let (bytes, tail) = take(&other, None, kind).unwrap();
        assert!(tail == Tail::Reset, "{bytes:?}");
    }

    #[test]
    fn an_anchor_takes_all_bytes_though_nobody_reads() {
        let (one, other) = Kind::Tcp.pair().unwrap();
        let sent: Vec<u8> = (0..6_000_000_u32).map(|at| (at % 251) as u8).collect();
        put(&one, &sent).unwrap();
        drop(one);
        assert_eq!(take(&other, None, Kind::Tcp), Ok((sent, Tail::Finished)));
    }
}
