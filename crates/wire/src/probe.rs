//! The headers that a probe puts into the payload of its packets.
//!
//! Both headers have 16 bytes, because a 64-byte Ethernet frame has room for 18 bytes of UDP payload
//! (64 − 14 Ethernet − 20 IPv4 − 8 UDP − 4 FCS). The smallest frame is the one whose cost per packet is the
//! most interesting. Both keep the sequence number at the same
//! offset, so that a tap can read it without knowing which of the two it looks at.
//!
//! ```text
//!          0        2        4                 8                 12                16
//! packet   | magic  | flow   | sequence        | intended send time in ns           |
//! rr       | magic  |kind| 0 | sequence        | message bytes   | reply bytes      |
//! ```
//!
//! Everything is **big endian**: these bytes travel on a network, where packet analysers and the
//! BPF programs of the taps read them next to other headers in network order.
//!
//! `parse` accepts only what the probes send.

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    #[error("a probe header has {HEADER_BYTES} bytes, the payload only {0}")]
    Truncated(usize),
    #[error("payload starts with {0:#06x}, which no probe sends")]
    Magic(u16),
    #[error("request/response kind {0} does not exist")]
    Kind(u8),
    #[error("a message of {0} bytes cannot hold its own header")]
    MessageBytes(u32),
}

pub const HEADER_BYTES: usize = 16;
/// First two bytes of an open-loop packet: "LP".
pub const PACKET_MAGIC: u16 = 0x4c50;
/// First two bytes of a request or a response: "LR".
pub const TRANSACTION_MAGIC: u16 = 0x4c52;

mod field {
    use core::ops::Range;

    pub const MAGIC: Range<usize> = 0..2;
    pub const FLOW: Range<usize> = 2..4;
    pub const KIND: usize = 2;
    pub const RESERVED: usize = 3;
    pub const SEQUENCE: Range<usize> = 4..8;
    pub const INTENDED: Range<usize> = 8..16;
    pub const MESSAGE_BYTES: Range<usize> = 8..12;
    pub const REPLY_BYTES: Range<usize> = 12..16;
}

fn bytes_at<const N: usize>(bytes: &[u8], at: core::ops::Range<usize>) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at]);
    value
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRepr {
    /// Which sender's stream the packet belongs to.
    pub flow: u16,
    /// The packet's number in its flow, counted from 0.
    pub sequence: u32,
    /// When it should have been sent, in ns of the sender's `CLOCK_MONOTONIC`.
    pub intended_ns: u64,
}

impl PacketRepr {
    #[inline]
    pub fn parse(payload: &[u8]) -> Result<PacketRepr, Error> {
        check_len(payload)?;
        match u16::from_be_bytes(bytes_at(payload, field::MAGIC)) {
            PACKET_MAGIC => Ok(PacketRepr {
                flow: u16::from_be_bytes(bytes_at(payload, field::FLOW)),
                sequence: u32::from_be_bytes(bytes_at(payload, field::SEQUENCE)),
                intended_ns: u64::from_be_bytes(bytes_at(payload, field::INTENDED)),
            }),
            other => Err(Error::Magic(other)),
        }
    }

    /// Writes the header. Panics when the payload is shorter than [`HEADER_BYTES`].
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        payload[field::MAGIC].copy_from_slice(&PACKET_MAGIC.to_be_bytes());
        payload[field::FLOW].copy_from_slice(&self.flow.to_be_bytes());
        payload[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        payload[field::INTENDED].copy_from_slice(&self.intended_ns.to_be_bytes());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionKind {
    Request = 1,
    Response = 2,
}

/// A request's or response's header.
///
/// The message length is inside, so that a TCP stream can be cut into messages; the wanted length
/// of the reply is inside, so that a server needs no setting to serve different clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionRepr {
    pub kind: TransactionKind,
    /// The transaction's number, counted from 0; a response repeats its request's.
    pub sequence: u32,
    /// Length of this whole message, header included, in bytes; at least [`HEADER_BYTES`].
    pub message_bytes: u32,
    /// Length of the reply asked for, in bytes; in a request, 0 leaves it to the server. In a response it is 0.
    pub reply_bytes: u32,
}

impl TransactionRepr {
    #[inline]
    pub fn parse(message: &[u8]) -> Result<TransactionRepr, Error> {
        check_len(message)?;
        let magic = u16::from_be_bytes(bytes_at(message, field::MAGIC));
        if magic != TRANSACTION_MAGIC {
            return Err(Error::Magic(magic));
        }
        let kind = match message[field::KIND] {
            1 => TransactionKind::Request,
            2 => TransactionKind::Response,
            other => return Err(Error::Kind(other)),
        };
        let message_bytes = u32::from_be_bytes(bytes_at(message, field::MESSAGE_BYTES));
        if (message_bytes as usize) < HEADER_BYTES {
            return Err(Error::MessageBytes(message_bytes));
        }
        Ok(TransactionRepr {
            kind,
            sequence: u32::from_be_bytes(bytes_at(message, field::SEQUENCE)),
            message_bytes,
            reply_bytes: u32::from_be_bytes(bytes_at(message, field::REPLY_BYTES)),
        })
    }

    /// Writes the header. Panics when the message is shorter than [`HEADER_BYTES`].
    #[inline]
    pub fn emit(&self, message: &mut [u8]) {
        message[field::MAGIC].copy_from_slice(&TRANSACTION_MAGIC.to_be_bytes());
        message[field::KIND] = self.kind as u8;
        message[field::RESERVED] = 0;
        set_sequence(message, self.sequence);
        message[field::MESSAGE_BYTES].copy_from_slice(&self.message_bytes.to_be_bytes());
        message[field::REPLY_BYTES].copy_from_slice(&self.reply_bytes.to_be_bytes());
    }
}

/// Writes the sequence number, the one field that changes from request to request.
#[inline]
pub fn set_sequence(message: &mut [u8], sequence: u32) {
    message[field::SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
}

fn check_len(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() < HEADER_BYTES {
        Err(Error::Truncated(bytes.len()))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 16] = [
        0x4c, 0x50, 0x00, 0x07, 0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05,
        0x06,
    ];
    const PACKET_REPR: PacketRepr = PacketRepr {
        flow: 7,
        sequence: 0x0001_0203,
        intended_ns: 0x0102_0304_0506,
    };
    const REQUEST: [u8; 16] = [
        0x4c, 0x52, 0x01, 0x00, 0xff, 0xfe, 0xfd, 0xfc, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00,
        0xc8,
    ];
    const REQUEST_REPR: TransactionRepr = TransactionRepr {
        kind: TransactionKind::Request,
        sequence: 0xfffe_fdfc,
        message_bytes: 100,
        reply_bytes: 200,
    };

    #[test]
    fn packet_is_read_as_written() {
        assert_eq!(PacketRepr::parse(&PACKET), Ok(PACKET_REPR));
        let mut bytes = [0xa5; 16];
        PACKET_REPR.emit(&mut bytes);
        assert_eq!(bytes, PACKET);
    }

    #[test]
    fn transaction_is_read_as_written() {
        assert_eq!(TransactionRepr::parse(&REQUEST), Ok(REQUEST_REPR));
        let mut bytes = [0xa5; 16];
        REQUEST_REPR.emit(&mut bytes);
        assert_eq!(bytes, REQUEST);
        set_sequence(&mut bytes, 5);
        assert_eq!(TransactionRepr::parse(&bytes).unwrap().sequence, 5);
    }

    #[test]
    fn the_smallest_ethernet_frame_has_room_for_the_header() {
        const SMALLEST_UDP_PAYLOAD: usize = 64 - 14 - 20 - 8 - 4;
        const { assert!(HEADER_BYTES <= SMALLEST_UDP_PAYLOAD) };
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(PacketRepr::parse(&PACKET[..15]), Err(Error::Truncated(15)));
        assert_eq!(PacketRepr::parse(&PACKET[..3]), Err(Error::Truncated(3)));
        assert_eq!(PacketRepr::parse(&REQUEST), Err(Error::Magic(0x4c52)));
        assert_eq!(TransactionRepr::parse(&PACKET), Err(Error::Magic(0x4c50)));
        let mut bytes = REQUEST;
        bytes[2] = 3;
        assert_eq!(TransactionRepr::parse(&bytes), Err(Error::Kind(3)));
        let mut bytes = REQUEST;
        bytes[11] = 15;
        assert_eq!(TransactionRepr::parse(&bytes), Err(Error::MessageBytes(15)));
    }
}
