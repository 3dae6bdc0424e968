//! Frames built here and not by the kernel: Ethernet, IPv4, UDP, the probes' header.
//!
//! Every frame of a run has the same bytes but for the source port and the header. The UDP checksum is 0,
//! which over IPv4 says that there is none (RFC 768), as generators have it. Nothing on the way spends
//! time on it, and no device that takes frames before the kernel's network can find it still to be made.

use std::net::SocketAddrV4;

use latlab_wire::probe::{HEADER_BYTES, PacketRepr};

use crate::checksum::checksum;

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const PAYLOAD: usize = ETHERNET + IP + UDP;
const SOURCE_PORT: usize = ETHERNET + IP;

#[derive(Debug, Clone)]
pub struct Template {
    /// The bytes, with nothing in those that differ.
    pub bytes: Vec<u8>,
}

impl Template {
    /// Frames of `length` bytes, the frame check sequence not counted.
    pub fn new(
        hardware: ([u8; 6], [u8; 6]),
        from: SocketAddrV4,
        to: SocketAddrV4,
        length: usize,
    ) -> Template {
        assert!((PAYLOAD + HEADER_BYTES..=ETHERNET + 65_535).contains(&length));
        let mut bytes = vec![0; length];
        bytes[..6].copy_from_slice(&hardware.1);
        bytes[6..12].copy_from_slice(&hardware.0);
        bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
        let ip = &mut bytes[ETHERNET..ETHERNET + IP];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&((length - ETHERNET) as u16).to_be_bytes());
        // Never in fragments, which no tap times.
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = 17;
        ip[12..16].copy_from_slice(&from.ip().octets());
        ip[16..20].copy_from_slice(&to.ip().octets());
        let check = checksum(ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        let udp_bytes = (length - ETHERNET - IP) as u16;
        bytes[SOURCE_PORT + 2..SOURCE_PORT + 4].copy_from_slice(&to.port().to_be_bytes());
        bytes[SOURCE_PORT + 4..SOURCE_PORT + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        Template { bytes }
    }

    /// Makes a frame, which began as this template, one packet's.
    pub fn stamp(&self, frame: &mut [u8], port: u16, packet: PacketRepr) {
        frame[SOURCE_PORT..SOURCE_PORT + 2].copy_from_slice(&port.to_be_bytes());
        packet.emit(&mut frame[PAYLOAD..PAYLOAD + HEADER_BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_a_receiver_expects() {
        for length in [60, 61, 1514, 9014] {
            let template = Template::new(
                ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
                "10.9.1.1:4000".parse().unwrap(),
                "10.9.2.1:5000".parse().unwrap(),
                length,
            );
            let mut frame = template.bytes.clone();
            for sequence in [0, 7, 0x0001_0203] {
                let packet = PacketRepr {
                    flow: 3,
                    sequence,
                    intended_ns: 0x0123_4567_89ab_cdef,
                };
                template.stamp(&mut frame, 4000 + sequence as u16, packet);
                assert_eq!(frame.len(), length);
                // A right checksum makes the sum over all it covers nothing.
                assert_eq!(checksum(&frame[14..34]), 0);
                assert_eq!(frame[34..36], (4000 + sequence as u16).to_be_bytes());
                let udp_bytes = ((length - 34) as u16).to_be_bytes();
                assert_eq!(frame[38..42], [udp_bytes[0], udp_bytes[1], 0, 0]);
                assert_eq!(PacketRepr::parse(&frame[42..]).unwrap(), packet);
            }
        }
    }
}
