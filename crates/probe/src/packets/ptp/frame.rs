//! Messages of the Precision Time Protocol over Ethernet (IEEE 1588-2019, clause 13 and annex E) that carry the probes' header.
//!
//! Each is a `Sync` of a domain that daemons of PTP have only if they are told to. The probes' header comes behind the
//! message, where PTP sees padding.
//!
//! ```text
//!          0           14                          58               74
//!          | Ethernet  | header 34 | timestamp 10  | probe's header | padding
//! ```

use latlab_wire::probe::{HEADER_BYTES, PacketRepr};

pub const ETHER_TYPE: u16 = 0x88f7;
/// Bytes of the smallest frame, the frame check sequence not counted.
pub const MIN_BYTES: usize = PAYLOAD + HEADER_BYTES;

const ETHERNET: usize = 14;
const MESSAGE_BYTES: u16 = 44;
const PAYLOAD: usize = ETHERNET + MESSAGE_BYTES as usize;
/// Message type `Sync`, version 2.
const START: [u8; 2] = [0x00, 0x02];
const DOMAIN_AT: usize = ETHERNET + 4;
/// Free for users (table 2: 4 to 127).
const DOMAIN: u8 = 127;
/// The interval of messages that are not periodic (13.3.2.14).
const INTERVAL_AT: usize = ETHERNET + 33;
const NO_INTERVAL: u8 = 0x7f;

/// A frame of `length` bytes, which lacks nothing but the packet's own header.
pub fn template(from: [u8; 6], to: [u8; 6], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.max(MIN_BYTES)];
    bytes[..6].copy_from_slice(&to);
    bytes[6..12].copy_from_slice(&from);
    bytes[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    bytes[14..16].copy_from_slice(&START);
    bytes[16..18].copy_from_slice(&MESSAGE_BYTES.to_be_bytes());
    bytes[DOMAIN_AT] = DOMAIN;
    bytes[INTERVAL_AT] = NO_INTERVAL;
    bytes
}

pub fn stamp(frame: &mut [u8], packet: PacketRepr) {
    packet.emit(&mut frame[PAYLOAD..MIN_BYTES]);
}

/// The packet in a frame; none in a message of someone else.
pub fn parse(frame: &[u8]) -> Option<PacketRepr> {
    let header = frame.get(PAYLOAD..MIN_BYTES)?;
    let is_ours = frame[12..14] == ETHER_TYPE.to_be_bytes()
        && frame[14..16] == START
        && frame[DOMAIN_AT] == DOMAIN;
    let packet = PacketRepr::parse(header).ok()?;
    is_ours.then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_back_and_other_messages_are_not() {
        let packet = PacketRepr {
            flow: 0,
            sequence: 7,
            intended_ns: 9,
        };
        for length in [0, MIN_BYTES, 1514] {
            let mut frame = template([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], length);
            assert_eq!(frame.len(), length.max(MIN_BYTES));
            assert_eq!(parse(&frame), None, "without its header");
            stamp(&mut frame, packet);
            assert_eq!(parse(&frame), Some(packet));
            for (at, other) in [(13, 0), (14, 1), (15, 1), (DOMAIN_AT, 0)] {
                let mut frame = frame.clone();
                frame[at] = other;
                assert_eq!(parse(&frame), None, "byte {at}");
            }
            assert_eq!(parse(&frame[..MIN_BYTES - 1]), None);
        }
    }
}
