//! Sockets, made the way the probes need them.
//!
//! Built on rustix and not on std's socket types, because the probes bind before they connect, tell
//! the addresses of raw sockets, and pass flags with each call. A socket is an [`Arc`] of a file
//! descriptor, shared with the thread that shuts it down at the end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, bind, connect, getsockname,
    ipproto, listen, recv, send, sendto, socket_with,
};

use crate::error::{Error, Result};
use crate::setup::Poll;
use crate::{sys, time};

/// A socket that another thread may shut down.
pub type Socket = Arc<OwnedFd>;

/// Largest UDP payload, that of IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

pub fn udp_at(local: SocketAddr) -> Result<Socket> {
    let socket = new_socket(local.ip(), SocketType::DGRAM, Some(ipproto::UDP), "UDP")?;
    bind(&socket, &local).map_err(|error| Error::machine(format!("bind UDP {local}"), error))?;
    Ok(socket)
}

/// A UDP socket connected to `to`, from `from` if given.
pub fn udp_to(to: SocketAddr, from: Option<IpAddr>) -> Result<Socket> {
    let socket = new_socket(to.ip(), SocketType::DGRAM, Some(ipproto::UDP), "UDP")?;
    bind_and_connect(&socket, to, from)?;
    Ok(socket)
}

/// A UDP socket for sending to `to` that is not connected, from `from` if given.
pub fn udp_like(to: SocketAddr, from: Option<IpAddr>) -> Result<Socket> {
    let from = from.unwrap_or_else(|| match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    });
    same_version(to, from)?;
    udp_at(SocketAddr::new(from, 0))
}

pub fn tcp_at(local: SocketAddr) -> Result<Socket> {
    let socket = new_socket(local.ip(), SocketType::STREAM, Some(ipproto::TCP), "TCP")?;
    // So that a server can start again although connections of its predecessor linger.
    sockopt::set_socket_reuseaddr(&socket, true)
        .and_then(|()| bind(&socket, &local))
        .and_then(|()| listen(&socket, 128))
        .map_err(|error| Error::machine(format!("listen on TCP {local}"), error))?;
    Ok(socket)
}

/// A TCP connection to `to`, from `from` if given, without Nagle's algorithm.
pub fn tcp_to(to: SocketAddr, from: Option<IpAddr>, timeout: Duration) -> Result<Socket> {
    let socket = new_socket(to.ip(), SocketType::STREAM, Some(ipproto::TCP), "TCP")?;
    // On Linux the send timeout bounds connecting as well.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))
        .map_err(|error| Error::machine("set the timeout of a TCP socket", error))?;
    bind_and_connect(&socket, to, from)?;
    no_delay(&socket)?;
    Ok(socket)
}

/// Turns off Nagle's algorithm, which would hold back every second request.
pub fn no_delay(socket: &Socket) -> Result<()> {
    sockopt::set_tcp_nodelay(socket, true).map_err(|error| Error::machine("set TCP_NODELAY", error))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpSocket {
    /// Needs CAP_NET_RAW; sees the IPv4 header and every echo reply of the node.
    Raw,
    /// Needs the group to be in net.ipv4.ping_group_range; the kernel chooses the identifier.
    Datagram,
}

/// An ICMP socket connected to `to`. Raw where permitted, so that every node with the right to it
/// is measured in the same way; a fresh network namespace permits datagram sockets to no group.
pub fn icmp_to(to: IpAddr, from: Option<IpAddr>) -> Result<(Socket, IcmpSocket)> {
    let protocol = if to.is_ipv6() {
        ipproto::ICMPV6
    } else {
        ipproto::ICMP
    };
    let (socket, kind) = match new_socket(to, SocketType::RAW, Some(protocol), "raw ICMP") {
        Ok(socket) => (socket, IcmpSocket::Raw),
        Err(refused) => match new_socket(to, SocketType::DGRAM, Some(protocol), "ICMP") {
            Ok(socket) => (socket, IcmpSocket::Datagram),
            Err(_) => return Err(refused),
        },
    };
    if kind == IcmpSocket::Raw {
        sys::accept_only_echo_replies(socket.as_fd(), to.is_ipv6())
            .map_err(|error| Error::machine("filter a raw ICMP socket", error))?;
    }
    bind_and_connect(&socket, SocketAddr::new(to, 0), from)?;
    Ok((socket, kind))
}

pub fn local_address(socket: &Socket) -> Result<SocketAddr> {
    getsockname(socket)
        .and_then(SocketAddr::try_from)
        .map_err(|error| Error::machine("read a socket's own address", error))
}

/// Gives the socket `bytes` of receive buffer, or as much as is allowed; says what it has. The
/// kernel counts its own overhead too, so that small packets take much more than their length.
pub fn set_receive_buffer(socket: &Socket, bytes: usize) -> Result<u64> {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))
        .and_then(|()| sockopt::socket_recv_buffer_size(socket))
        // The kernel stores, and tells, the double.
        .map(|doubled| doubled as u64 / 2)
        .map_err(|error| Error::machine("size the receive buffer", error))
}

/// Gives the socket `bytes` of send buffer, or as much as is allowed.
pub fn set_send_buffer(socket: &Socket, bytes: usize) -> Result<()> {
    sockopt::set_socket_send_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes))
        .map_err(|error| Error::machine("size the send buffer", error))
}

/// Forbids fragmentation, and tells the MTU of the route to the peer.
pub fn route_mtu(socket: &Socket, v6: bool) -> Result<u32> {
    let mtu = if v6 {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::DO)
            .and_then(|()| sockopt::ipv6_mtu(socket))
    } else {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::DO)
            .and_then(|()| sockopt::ip_mtu(socket))
    };
    mtu.map_err(|error| Error::machine("read the MTU of the route", error))
}

/// Bounds how long a blocking receive waits.
pub fn set_receive_timeout(socket: &Socket, timeout_ns: u64) -> Result<()> {
    // 0 would mean for ever.
    let timeout = Duration::from_nanos(timeout_ns.max(1_000));
    sockopt::set_socket_timeout(socket, Timeout::Recv, Some(timeout))
        .map_err(|error| Error::machine("set a receive timeout", error))
}

/// Receives once: blocking, or not waiting at all. `None` when nothing came (in time).
pub fn receive(socket: &Socket, buffer: &mut [u8], poll: Poll) -> io::Result<Option<usize>> {
    match recv(socket, buffer, poll.flags()) {
        Ok((length, _)) => Ok(Some(length)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until there is something to receive, or for this long; a signal may end it sooner.
pub fn wait_for_input(socket: &impl AsFd, at_most_ns: u64) -> rustix::io::Result<()> {
    let mut readable = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut readable, Some(&time::from_ns(at_most_ns))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took it.
    Yes,
    /// The kernel had no room for it, or no way to the peer.
    No,
}

/// Sends one datagram without ever waiting, to `to` or where the socket is connected to.
///
/// A connected socket reports on the next call what the network answered to an earlier packet (port
/// unreachable, say), *instead of* sending; such errors are counted and the packet is sent again,
/// once. Other errors are the caller's to report.
pub fn send_datagram(
    socket: &Socket,
    bytes: &[u8],
    to: Option<&SocketAddr>,
    network_errors: &mut u64,
) -> io::Result<Sent> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    for _ in 0..2 {
        let sent = match to {
            None => send(socket, bytes, flags),
            Some(to) => sendto(socket, bytes, flags, to),
        };
        match sent {
            Ok(_) => return Ok(Sent::Yes),
            Err(error) if is_network_error(error) => *network_errors += 1,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Ok(Sent::No),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Sent::No)
}

/// Whether an error is an answer of the network, which a study of faults wants counted, and not a
/// mistake, which should end the run.
pub fn is_network_error(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::PROTO
    )
}

fn new_socket(
    peer: IpAddr,
    kind: SocketType,
    protocol: Option<Protocol>,
    name: &str,
) -> Result<Socket> {
    let family = if peer.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    socket_with(family, kind, SocketFlags::CLOEXEC, protocol)
        .map(Arc::new)
        .map_err(|error| Error::machine(format!("open a {name} socket"), error))
}

fn same_version(to: SocketAddr, from: IpAddr) -> Result<()> {
    if from.is_ipv6() == to.is_ipv6() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--bind {from} and --to {to} are not of the same IP version"
    )))
}

fn bind_and_connect(socket: &Socket, to: SocketAddr, from: Option<IpAddr>) -> Result<()> {
    if let Some(from) = from {
        same_version(to, from)?;
        let local = SocketAddr::new(from, 0);
        bind(socket, &local).map_err(|error| Error::machine(format!("bind {from}"), error))?;
    }
    connect(socket, &to).map_err(|error| match error {
        // Errors of a refused or unanswered TCP connection; the peer is at fault, not the machine.
        Errno::CONNREFUSED | Errno::TIMEDOUT | Errno::INPROGRESS | Errno::CONNRESET => {
            let why = match error {
                Errno::INPROGRESS => "no answer in time".to_owned(),
                other => io::Error::from(other).to_string(),
            };
            Error::Peer(format!("connect to {to}: {why}"))
        }
        other => Error::machine(format!("connect to {to}"), other),
    })
}
