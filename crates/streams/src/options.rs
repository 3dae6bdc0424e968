//! Options of sockets: which an anchor answers for its shadow, and which the shadow is given.
//!
//! The supervisor is root and acts in place of programs that are not. So it passes on only options that are plain
//! numbers without a privilege; others are refused as options that the protocol does not have.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::socket_linger;

use crate::shadow::Kind;
use crate::sys::socket::{SO_PASSRIGHTS, int_option, option, set_option};

/// Options of `SOL_SOCKET` whose answer from an AF_UNIX socket is another one than from a TCP socket. The filter of
/// sessions (`host/sys/notify.rs`) holds these, and those that [`place`] names; all others are the shadow's own.
const SOCKET_LEVEL: [i32; 4] = [
    libc::SO_DOMAIN,
    libc::SO_PROTOCOL,
    libc::SO_PEERCRED,
    SO_PASSRIGHTS,
];

const TCP: [i32; 18] = [
    libc::TCP_CONGESTION,
    libc::TCP_NODELAY,
    libc::TCP_MAXSEG,
    libc::TCP_CORK,
    libc::TCP_KEEPIDLE,
    libc::TCP_KEEPINTVL,
    libc::TCP_KEEPCNT,
    libc::TCP_SYNCNT,
    libc::TCP_LINGER2,
    libc::TCP_DEFER_ACCEPT,
    libc::TCP_WINDOW_CLAMP,
    libc::TCP_INFO,
    libc::TCP_QUICKACK,
    libc::TCP_USER_TIMEOUT,
    libc::TCP_FASTOPEN,
    libc::TCP_TIMESTAMP,
    libc::TCP_NOTSENT_LOWAT,
    libc::TCP_THIN_LINEAR_TIMEOUTS,
];

const IP: [i32; 10] = [
    libc::IP_TOS,
    libc::IP_TTL,
    libc::IP_MTU_DISCOVER,
    libc::IP_RECVERR,
    libc::IP_RECVTTL,
    libc::IP_RECVTOS,
    libc::IP_MTU,
    libc::IP_FREEBIND,
    libc::IP_MINTTL,
    libc::IP_BIND_ADDRESS_NO_PORT,
];

const IPV6: [i32; 8] = [
    libc::IPV6_V6ONLY,
    libc::IPV6_TCLASS,
    libc::IPV6_UNICAST_HOPS,
    libc::IPV6_MTU_DISCOVER,
    libc::IPV6_MTU,
    libc::IPV6_RECVERR,
    libc::IPV6_RECVTCLASS,
    libc::IPV6_RECVHOPLIMIT,
];

/// The sockets of a stream that have an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The shadow, as the kernel has it: the call is carried out.
    Own,
    /// The shadow; setting it is watched.
    Watched,
    Anchor,
    /// Both, and the anchor tells it.
    Both,
    /// The anchor tells it, and it cannot be set.
    Told,
    /// None.
    Nowhere,
}

/// Where a stream with this kind of shadow has an option.
pub fn place(kind: Kind, level: i32, name: i32) -> Place {
    match (level, name) {
        (libc::IPPROTO_TCP, _) | (libc::SOL_SOCKET, libc::SO_LINGER) if kind == Kind::Tcp => {
            Place::Own
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => Place::Watched,
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => Place::Both,
        // Its completions would never come.
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => Place::Told,
        (libc::SOL_SOCKET, name) if SOCKET_LEVEL.contains(&name) => Place::Anchor,
        (libc::IPPROTO_TCP, name) if TCP.contains(&name) => Place::Anchor,
        (libc::IPPROTO_IP, name) if IP.contains(&name) => Place::Anchor,
        (libc::IPPROTO_IPV6, name) if IPV6.contains(&name) => Place::Anchor,
        _ => Place::Nowhere,
    }
}

/// Sets an option of an anchor in a program's place.
pub fn set(anchor: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) if !may_choose(value) => Err(Errno::NOENT),
        _ => set_option(anchor, level, name, value),
    }
}

/// A list of the kernel's, the same in every namespace.
const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Whether a program may choose a congestion control for a stream of AF_UNIX. None has an effect on it, so any that the
/// kernel has will do, and none is loaded for its name.
fn may_choose(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let available = std::fs::read(CONGESTION_CONTROLS).unwrap_or_default();
    let mut available = available.split(u8::is_ascii_whitespace);
    !name.is_empty() && available.any(|word| word == name)
}

/// Options of `SOL_SOCKET` that a program may have set before the exchange, and that have an effect on the shadow.
const CARRIED: [(i32, usize); 8] = [
    (libc::SO_RCVTIMEO, 16),
    (libc::SO_SNDTIMEO, 16),
    (libc::SO_RCVLOWAT, 4),
    (libc::SO_OOBINLINE, 4),
    (libc::SO_KEEPALIVE, 4),
    (libc::SO_LINGER, 8),
    (libc::SO_PRIORITY, 4),
    (libc::SO_REUSEADDR, 4),
];

/// Gives the shadow what its anchor was given.
pub fn carry(anchor: BorrowedFd<'_>, shadow: BorrowedFd<'_>, kind: Kind) {
    for (name, room) in CARRIED {
        let Ok(value) = option(anchor, libc::SOL_SOCKET, name, room) else {
            continue;
        };
        // Most sockets are as they were made: all zeroes, but for a mark of one byte.
        let is_new = match name {
            libc::SO_RCVLOWAT => value == 1_i32.to_ne_bytes(),
            _ => value.iter().all(|byte| *byte == 0),
        };
        if !is_new {
            // An option that one kind of socket lacks has no effect there.
            set_option(shadow, libc::SOL_SOCKET, name, &value).ok();
        }
    }
    if kind == Kind::Tcp {
        carry_tcp(anchor, shadow);
    }
    if int_option(anchor, libc::SOL_SOCKET, SO_BUF_LOCK).is_ok_and(|lock| lock & SEND_LOCKED != 0) {
        if let Ok(doubled) = int_option(anchor, libc::SOL_SOCKET, libc::SO_SNDBUF) {
            // The kernel doubles what it is given (socket(7)).
            let value = (doubled / 2).to_ne_bytes();
            set_option(shadow, libc::SOL_SOCKET, libc::SO_SNDBUF, &value).ok();
        }
    }
}

/// Options of TCP that a program may have set before the exchange, and that have an effect on a shadow of TCP.
const TCP_CARRIED: [i32; 8] = [
    libc::TCP_NODELAY,
    libc::TCP_CORK,
    libc::TCP_KEEPIDLE,
    libc::TCP_KEEPINTVL,
    libc::TCP_KEEPCNT,
    libc::TCP_USER_TIMEOUT,
    libc::TCP_NOTSENT_LOWAT,
    libc::TCP_LINGER2,
];

/// `TCP_CA_NAME_MAX` of `net/tcp.h`.
const CONTROL_BYTES: usize = 16;

fn carry_tcp(anchor: BorrowedFd<'_>, shadow: BorrowedFd<'_>) {
    let level = libc::IPPROTO_TCP;
    for name in TCP_CARRIED {
        let Ok(wanted) = int_option(anchor, level, name) else {
            continue;
        };
        if int_option(shadow, level, name) != Ok(wanted) {
            set_option(shadow, level, name, &wanted.to_ne_bytes()).ok();
        }
    }
    // The namespaces of shadows have the machine's default, which the node may have changed.
    let control = |socket| option(socket, level, libc::TCP_CONGESTION, CONTROL_BYTES);
    let wanted = control(anchor)
        .ok()
        .filter(|_| control(anchor) != control(shadow));
    if let Some(name) = wanted {
        set_option(shadow, level, libc::TCP_CONGESTION, &name).ok();
    }
}

/// `linux/socket.h`: which buffer sizes a program has set (Linux 5.14).
const SO_BUF_LOCK: i32 = 72;
const SEND_LOCKED: i32 = 1;

/// Whether closing the socket is to reset the connection (`SO_LINGER` with no time). An AF_UNIX socket cannot do that.
pub fn resets_at_close(socket: BorrowedFd<'_>) -> bool {
    linger(socket) == Some(Duration::ZERO)
}

/// Whether closing the socket waits for the peer.
pub fn lingers(socket: BorrowedFd<'_>) -> bool {
    linger(socket).is_some_and(|time| !time.is_zero())
}

/// Whether its sending is of a kind that a shadow does not have: the first data connects (TCP_FASTOPEN_CONNECT), or pages
/// are pinned and completions told (SO_ZEROCOPY).
pub fn defers_or_pins(socket: BorrowedFd<'_>) -> bool {
    let is_set = |level, name| int_option(socket, level, name).is_ok_and(|value| value != 0);
    is_set(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT)
        || is_set(libc::SOL_SOCKET, libc::SO_ZEROCOPY)
}

fn linger(socket: BorrowedFd<'_>) -> Option<Duration> {
    socket_linger(socket).ok().flatten()
}

/// Whether connections of a listening socket can be streams. Not where they are accepted with their first data only
/// (tcp(7), TCP_DEFER_ACCEPT), which an anchor never has, nor where they inherit that closing resets them.
pub fn allow_streams(listening: BorrowedFd<'_>) -> bool {
    let seconds = int_option(listening, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    seconds == Ok(0) && !resets_at_close(listening) && !defers_or_pins(listening)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_pointers_or_privileges_are_nowhere() {
        // netfilter's tables, which hold pointers; kernel TLS, which would encrypt bytes that the anchor never carries.
        for (level, name) in [
            (libc::IPPROTO_IP, 64),
            (libc::IPPROTO_IPV6, 64),
            (libc::IPPROTO_TCP, libc::TCP_ULP),
            (libc::IPPROTO_TCP, libc::TCP_REPAIR),
            (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE),
            (libc::IPPROTO_TCP, libc::TCP_MD5SIG),
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        ] {
            assert_eq!(
                place(Kind::Unix, level, name),
                Place::Nowhere,
                "{level} {name}"
            );
        }
    }

    #[test]
    fn a_shadow_of_tcp_has_the_options_of_tcp_itself() {
        let no_delay = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        assert_eq!(place(Kind::Unix, no_delay.0, no_delay.1), Place::Anchor);
        assert_eq!(place(Kind::Tcp, no_delay.0, no_delay.1), Place::Own);
        let linger = (libc::SOL_SOCKET, libc::SO_LINGER);
        assert_eq!(place(Kind::Unix, linger.0, linger.1), Place::Watched);
        assert_eq!(place(Kind::Tcp, linger.0, linger.1), Place::Own);
    }

    #[test]
    fn a_congestion_control_that_would_be_loaded_is_not_chosen() {
        assert!(may_choose(b"reno\0") && !may_choose(b"no-such") && !may_choose(b""));
    }
}
