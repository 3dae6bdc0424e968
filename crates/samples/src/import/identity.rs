//! The identity of a packet: a hash of what a device between two points leaves as it was.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use pcap_parser::Linktype;

use super::capture::Packet;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Tags of IEEE 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const IPV6_HEADER: usize = 40;

/// The part of a packet by which it is known again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// All bytes: a switch or a bridge leaves them.
    Frame,
    /// The IP packet without fields that a router changes: DSCP and ECN, TTL, checksum (RFC 791, RFC 2474, RFC 8200).
    #[default]
    Packet,
    /// The transport's sequence numbers and payload, without addresses, ports and checksums, which NAT changes (RFC 3022).
    Payload,
}

impl By {
    pub const WORDS: [(&'static str, By); 3] = [
        ("frame", By::Frame),
        ("packet", By::Packet),
        ("payload", By::Payload),
    ];

    pub fn word(self) -> &'static str {
        let word = By::WORDS.iter().find(|(_, by)| *by == self);
        word.map_or("", |(word, _)| word)
    }
}

/// The layers of a packet.
pub struct Layers<'a> {
    frame: &'a [u8],
    network: &'a [u8],
    is: Network,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    V4,
    V6,
    Other,
}

impl<'a> Layers<'a> {
    /// `None` for a kind of link that is not known.
    pub fn of(packet: &Packet<'a>) -> Option<Layers<'a>> {
        let frame = packet.data;
        let (kind, network) = match packet.link {
            Linktype::ETHERNET => ethernet(frame),
            Linktype::LINUX_SLL => after_type(frame, 14),
            Linktype(276) => (number(frame, 0), frame.get(20..)),
            Linktype::RAW | Linktype(12 | 228 | 229) => {
                let kind = match frame.first().map(|first| first >> 4) {
                    Some(6) => IPV6,
                    _ => IPV4,
                };
                (kind, Some(frame))
            }
            _ => return None,
        };
        let network = network.unwrap_or_default();
        let is = match kind {
            IPV4 if network.len() >= header_of_v4(network) => Network::V4,
            IPV6 if network.len() >= IPV6_HEADER => Network::V6,
            _ => Network::Other,
        };
        // Ethernet pads what is shorter than 60 bytes. A packet that the card is yet to segment may have no length.
        let (least, length) = match is {
            Network::V4 => (header_of_v4(network), usize::from(number(network, 2))),
            Network::V6 => {
                let length = IPV6_HEADER + usize::from(number(network, 4));
                (IPV6_HEADER + 1, length)
            }
            Network::Other => (0, network.len()),
        };
        let length = if length < least {
            network.len()
        } else {
            length
        };
        Some(Layers {
            frame,
            network: network.get(..length).unwrap_or(network),
            is,
        })
    }

    /// Bytes that may tell two packets apart, of what was kept.
    pub fn kept(&self, by: By) -> usize {
        match by {
            By::Frame => self.frame.len(),
            By::Packet | By::Payload => self.network.len(),
        }
    }

    /// The hash of the first `limit` bytes, so that a file with shorter packets can be compared with another.
    pub fn key(&self, by: By, limit: usize) -> u64 {
        let mut hash = DefaultHasher::new();
        let first = |bytes: &'a [u8]| &bytes[..bytes.len().min(limit)];
        match (by, self.is) {
            (By::Frame, _) => first(self.frame).hash(&mut hash),
            (_, Network::Other) => first(self.network).hash(&mut hash),
            (By::Packet, is) => {
                let packet = first(self.network);
                let fixed: &[usize] = match is {
                    Network::V4 => &[1, 8, 10, 11],
                    _ => &[1, 7],
                };
                for (at, byte) in packet.iter().enumerate() {
                    let (mut byte, is_v6) = (*byte, is == Network::V6);
                    if fixed.contains(&at) {
                        byte = 0;
                    } else if is_v6 && at == 0 {
                        // The upper half of the traffic class is in the version's byte. The flow label stays.
                        byte &= 0xf0;
                    }
                    hash.write_u8(byte);
                }
            }
            (By::Payload, is) => {
                let (protocol, at) = match is {
                    Network::V4 => (self.network[9], header_of_v4(self.network)),
                    _ => (self.network[6], IPV6_HEADER),
                };
                let transport = first(self.network).get(at..).unwrap_or_default();
                protocol.hash(&mut hash);
                (self.network.len() - at).hash(&mut hash);
                for (from, to) in unchanged(protocol) {
                    let part = transport.get(from..).unwrap_or_default();
                    part[..part.len().min(to - from)].hash(&mut hash);
                }
            }
        }
        hash.finish()
    }

    /// A hash of where it comes from and goes to, which tells directions apart.
    pub fn ends(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        let ends = match self.is {
            Network::V4 => self.network.get(12..20),
            Network::V6 => self.network.get(8..40),
            Network::Other => self.frame.get(..12),
        };
        ends.hash(&mut hash);
        hash.finish()
    }

    /// The same in words.
    pub fn ends_text(&self) -> String {
        let v4 = |at: usize| <[u8; 4]>::try_from(self.network.get(at..at + 4)?).ok();
        let v6 = |at: usize| <[u8; 16]>::try_from(self.network.get(at..at + 16)?).ok();
        let ends = match self.is {
            Network::V4 => v4(12).zip(v4(16)).map(|(from, to)| {
                let [from, to] = [from, to].map(Ipv4Addr::from);
                format!("{from} to {to}")
            }),
            Network::V6 => v6(8).zip(v6(24)).map(|(from, to)| {
                let [from, to] = [from, to].map(Ipv6Addr::from);
                format!("{from} to {to}")
            }),
            Network::Other => None,
        };
        ends.unwrap_or_else(|| "frames without IP".to_owned())
    }
}

/// Ranges of a transport's segment that NAT leaves.
fn unchanged(protocol: u8) -> Vec<(usize, usize)> {
    match protocol {
        TCP => vec![(4, 16), (20, usize::MAX)],
        UDP => vec![(8, usize::MAX)],
        // The identifier of an echo stands for a port (RFC 5508).
        ICMP | ICMPV6 => vec![(0, 2), (6, usize::MAX)],
        _ => vec![(0, usize::MAX)],
    }
}

fn ethernet(frame: &[u8]) -> (u16, Option<&[u8]>) {
    let mut at = 12;
    while TAGS.contains(&number(frame, at)) {
        at += 4;
    }
    after_type(frame, at)
}

fn after_type(frame: &[u8], at: usize) -> (u16, Option<&[u8]>) {
    (number(frame, at), frame.get(at + 2..))
}

/// 0 beyond the end.
fn number(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2);
    two.map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

fn header_of_v4(network: &[u8]) -> usize {
    let words = network.first().map_or(0, |first| usize::from(first & 0xf));
    (words * 4).max(20)
}
