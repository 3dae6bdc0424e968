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
/// `LINKTYPE_LINUX_SLL2` and the four for bare IP packets.
const LINUX_SLL2: Linktype = Linktype(276);
const BARE: [Linktype; 4] = [Linktype::RAW, Linktype(12), Linktype(228), Linktype(229)];
/// Bytes in which a packet's header has all that routers change.
const CHANGED: usize = 12;
const V4_CHANGED: [u8; CHANGED] = [0, !0, 0, 0, 0, 0, 0, 0, !0, 0, !0, !0];
/// The traffic class lies in the first two bytes. The start of the flow label goes with it.
const V6_CHANGED: [u8; CHANGED] = [0xf, !0, 0, 0, 0, 0, 0, !0, 0, 0, 0, 0];

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
    pub fn word(self) -> &'static str {
        match self {
            By::Frame => "frame",
            By::Packet => "packet",
            By::Payload => "payload",
        }
    }
}

/// The layers of a packet, of what was kept of it.
pub struct Layers<'a> {
    frame: &'a [u8],
    network: &'a [u8],
    protocol: Network,
    /// Bytes of the network layer on the wire.
    length: usize,
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
            LINUX_SLL2 => (number(frame, 0), frame.get(20..)),
            link if BARE.contains(&link) => {
                let version = frame.first().map_or(0, |first| first >> 4);
                (if version == 6 { IPV6 } else { IPV4 }, Some(frame))
            }
            _ => return None,
        };
        let network = network.unwrap_or_default();
        let protocol = match kind {
            IPV4 if network.len() >= header_of_v4(network) => Network::V4,
            IPV6 if network.len() >= IPV6_HEADER => Network::V6,
            _ => Network::Other,
        };
        let cut = (packet.bytes as usize).saturating_sub(frame.len());
        let (header, told) = match protocol {
            Network::V4 => (header_of_v4(network), number(network, 2).into()),
            Network::V6 => (IPV6_HEADER, IPV6_HEADER + usize::from(number(network, 4))),
            Network::Other => (0, 0),
        };
        // Ethernet pads what is shorter than 60 bytes. A packet that the card is yet to segment may have no length.
        let length = if told > header {
            told
        } else {
            network.len() + cut
        };
        Some(Layers {
            frame,
            network: network.get(..length).unwrap_or(network),
            protocol,
            length,
        })
    }

    /// Bytes that may tell two packets apart.
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
        match (by, self.protocol) {
            (By::Frame, _) => without_padding(first(self.frame)).hash(&mut hash),
            (_, Network::Other) => without_padding(first(self.network)).hash(&mut hash),
            (By::Packet, Network::V4) => packet(first(self.network), V4_CHANGED, &mut hash),
            (By::Packet, Network::V6) => packet(first(self.network), V6_CHANGED, &mut hash),
            (By::Payload, Network::V4) => {
                let at = header_of_v4(self.network);
                self.payload(self.network[9], first(self.network), at, &mut hash);
            }
            (By::Payload, Network::V6) => {
                self.payload(self.network[6], first(self.network), IPV6_HEADER, &mut hash);
            }
        }
        hash.finish()
    }

    fn payload(&self, protocol: u8, packet: &[u8], at: usize, hash: &mut DefaultHasher) {
        let transport = packet.get(at..).unwrap_or_default();
        (protocol, self.length.saturating_sub(at)).hash(hash);
        for (from, to) in unchanged(protocol) {
            let part = transport.get(from..).unwrap_or_default();
            part[..part.len().min(to - from)].hash(hash);
        }
    }

    /// A hash of where it comes from and goes to, which tells directions apart.
    pub fn ends(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        let ends = match self.protocol {
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
        let ends = match self.protocol {
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

/// Hashes a packet without the bits of its header that routers change.
fn packet(packet: &[u8], changed: [u8; CHANGED], hash: &mut DefaultHasher) {
    let (header, rest) = packet.split_at(packet.len().min(CHANGED));
    for (byte, changed) in header.iter().zip(changed) {
        hash.write_u8(byte & !changed);
    }
    rest.hash(hash);
}

/// Zeros at the end left out: of a frame without IP no length tells what Ethernet has padded, and a sender's kernel sees
/// its frames before that.
fn without_padding(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..last.map_or(0, |last| last + 1)]
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
