//! Streams: what crosses the boundaries of `latlab-streams`, which exchanges descriptors of TCP connections.
//!
//! Its file is JSON. Its control socket keeps the bounds of messages (SOCK_SEQPACKET): a request is one JSON text, and
//! so is an answer. [`Request::Session`] is followed by one byte that carries a listener of seccomp notifications
//! (SCM_RIGHTS), sent by the process that is under the filter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// No message is longer.
pub const MESSAGE_BYTES: usize = 1 << 16;

/// The networks whose connections may be streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub nodes: Vec<Node>,
    pub networks: Vec<Network>,
    /// The socket that carries the bytes of a connection.
    #[serde(default)]
    pub shadow: Shadow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    /// Its network namespace.
    pub netns: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub name: String,
    pub ends: Vec<End>,
    /// The ports of servers whose connections may be streams, where no [`Request::Set`] names them; none are all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Index into [`Config::nodes`].
    pub node: usize,
    pub addresses: Vec<IpAddr>,
    /// Where each node of the network has a host of its own: this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

/// A host in a namespace of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub netns: PathBuf,
    /// Its address on the wire between the hosts.
    pub address: IpAddr,
}

/// The kind of socket that carries the bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shadow {
    /// `Unix` where the kernel can keep descriptors from passing through it (SO_PASSRIGHTS, Linux 6.16), else `Tcp`.
    #[default]
    Auto,
    /// A pair of AF_UNIX stream sockets.
    Unix,
    /// A TCP connection over the loopback of a namespace of its own.
    Tcp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The listener that follows is of a process of this node, by its name.
    Session {
        node: String,
    },
    Status,
    /// Whether new connections may be streams: those of one node, or all; or those to some ports, of one server or of
    /// all.
    Set {
        on: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ports: Vec<u16>,
    },
    /// A port of this server has no choice of its own any more.
    Unset {
        node: String,
        port: u16,
    },
    /// Whether connections of this node stay plain whatever [`Request::Set`] says: a process that is restored has a
    /// filter without a listener.
    Exclude {
        node: String,
        on: bool,
    },
    /// Streams of one node, or all, become plain connections; or those to some ports alone.
    Demote {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ports: Vec<u16>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Status(Status),
    Demoted(Demoted),
    Done,
    /// Connections of this node stay plain already.
    Excluded,
    Refused(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub on: bool,
    /// The kind of socket in use: `unix` or `tcp`.
    pub shadow: String,
    /// Filtered processes or groups of them.
    pub sessions: usize,
    /// Streams that are open now.
    pub open: usize,
    /// Connections that became streams.
    pub streams: u64,
    /// Streams whose server's end is relayed, because a program accepted the connection in another way.
    pub relayed: u64,
    /// Streams that became plain connections.
    pub demoted: u64,
    /// Connections that stayed plain, by reason.
    pub plain: Vec<(String, u64)>,
    /// The ports with the most connections, these first.
    #[serde(default)]
    pub ports: Vec<PortStatus>,
}

/// Connections to a port at which a server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// The server.
    pub node: String,
    pub port: u16,
    /// Those that became streams, and those that stayed plain.
    pub connections: u64,
    pub streams: u64,
    /// Streams that are open now.
    pub open: usize,
    /// Whether new ones may be streams, where that is switched for the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
}

/// Numbers of streams that were to be plain connections, by their fate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demoted {
    pub streams: u64,
    /// Bytes that were not read yet, and were sent once more as a connection's.
    pub bytes: u64,
    /// Streams that were reset, because such bytes could not be sent.
    pub reset: u64,
    /// Streams that stay what they are, by reason.
    pub kept: Vec<(String, u64)>,
    /// Time for which programs that have an end of them did not run.
    pub stopped_ns: u64,
}

/// `sa_family` values of Linux.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const IN_BYTES: usize = 16;
/// Without `sin6_scope_id`, which may be missing (RFC 2133).
const IN6_BYTES_MIN: usize = 24;

/// The address in a `sockaddr`, if it is one of IPv4 or IPv6.
pub fn parse_sockaddr(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match family {
        AF_INET if bytes.len() >= IN_BYTES => {
            let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(address), port()?).into())
        }
        AF_INET6 if bytes.len() >= IN6_BYTES_MIN => {
            let flow = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
            let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let scope = bytes.get(24..28).and_then(|b| b.try_into().ok());
            let scope = scope.map_or(0, u32::from_ne_bytes);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port()?, flow, scope).into())
        }
        _ => None,
    }
}

/// The address without its family's disguise: IPv4 for an IPv4-mapped one (RFC 4291, 2.5.5.2).
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address as the kernel writes it.
    fn write_sockaddr(address: SocketAddr) -> Vec<u8> {
        let mut bytes = Vec::new();
        match address {
            SocketAddr::V4(v4) => {
                bytes.extend(AF_INET.to_ne_bytes());
                bytes.extend(v4.port().to_be_bytes());
                bytes.extend(v4.ip().octets());
                bytes.resize(IN_BYTES, 0);
            }
            SocketAddr::V6(v6) => {
                bytes.extend(AF_INET6.to_ne_bytes());
                bytes.extend(v6.port().to_be_bytes());
                bytes.extend(v6.flowinfo().to_be_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
            }
        }
        bytes
    }

    #[test]
    fn addresses_come_back_as_they_were_and_mapped_ones_as_ipv4() {
        for text in ["10.0.0.1:80", "[fd00::1]:443", "[fe80::1%3]:7"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(parse_sockaddr(&write_sockaddr(address)), Some(address));
        }
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
        let read = parse_sockaddr(&write_sockaddr(mapped)).unwrap();
        assert_eq!(canonical(read), "10.0.0.1:80".parse().unwrap());
    }

    #[test]
    fn short_and_foreign_addresses_are_none() {
        let whole = write_sockaddr("10.0.0.1:80".parse().unwrap());
        for length in 0..IN_BYTES {
            assert_eq!(parse_sockaddr(&whole[..length]), None, "{length}");
        }
        let whole = write_sockaddr("[fd00::1]:80".parse().unwrap());
        for length in 0..IN6_BYTES_MIN {
            assert_eq!(parse_sockaddr(&whole[..length]), None, "{length}");
        }
        assert!(parse_sockaddr(&whole[..IN6_BYTES_MIN]).is_some());
        assert_eq!(parse_sockaddr(b"\x01\x00/run/socket"), None);
    }

    #[test]
    fn requests_and_answers_are_json() {
        let text = serde_json::to_string(&Request::Session { node: "a".into() }).unwrap();
        assert_eq!(text, r#"{"session":{"node":"a"}}"#);
        let text = serde_json::to_string(&Request::Status).unwrap();
        assert_eq!(text, r#""status""#);
    }
}
