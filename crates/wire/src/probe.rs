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
//! As in smoltcp, a header is two types. [`Packet`] and [`Transaction`] view bytes in place: made
//! with `new_checked` they never panic afterwards. [`PacketRepr`] and [`TransactionRepr`] are the
//! meaning; `parse` accepts only what the probes send.

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

fn u16_at(bytes: &[u8], at: core::ops::Range<usize>) -> u16 {
    let mut value = [0; 2];
    value.copy_from_slice(&bytes[at]);
    u16::from_be_bytes(value)
}

fn u32_at(bytes: &[u8], at: core::ops::Range<usize>) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at]);
    u32::from_be_bytes(value)
}

fn u64_at(bytes: &[u8], at: core::ops::Range<usize>) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at]);
    u64::from_be_bytes(value)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer` without looking at it. The accessors panic when it is shorter than [`HEADER_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Packet<T> {
        Packet { buffer }
    }

    /// Views `buffer` if it is long enough for every accessor.
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        check_len(buffer.as_ref())?;
        Ok(Packet { buffer })
    }

    pub fn magic(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::MAGIC)
    }

    pub fn flow(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::FLOW)
    }

    pub fn sequence(&self) -> u32 {
        u32_at(self.buffer.as_ref(), field::SEQUENCE)
    }

    pub fn intended_ns(&self) -> u64 {
        u64_at(self.buffer.as_ref(), field::INTENDED)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    pub fn fill_magic(&mut self) {
        self.buffer.as_mut()[field::MAGIC].copy_from_slice(&PACKET_MAGIC.to_be_bytes());
    }

    pub fn set_flow(&mut self, flow: u16) {
        self.buffer.as_mut()[field::FLOW].copy_from_slice(&flow.to_be_bytes());
    }

    pub fn set_sequence(&mut self, sequence: u32) {
        self.buffer.as_mut()[field::SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    }

    pub fn set_intended_ns(&mut self, intended_ns: u64) {
        self.buffer.as_mut()[field::INTENDED].copy_from_slice(&intended_ns.to_be_bytes());
    }
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
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<PacketRepr, Error> {
        check_len(packet.buffer.as_ref())?;
        match packet.magic() {
            PACKET_MAGIC => Ok(PacketRepr {
                flow: packet.flow(),
                sequence: packet.sequence(),
                intended_ns: packet.intended_ns(),
            }),
            other => Err(Error::Magic(other)),
        }
    }

    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header. Panics when the buffer is shorter than [`HEADER_BYTES`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.fill_magic();
        packet.set_flow(self.flow);
        packet.set_sequence(self.sequence);
        packet.set_intended_ns(self.intended_ns);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionKind {
    Request,
    Response,
}

impl TransactionKind {
    const fn code(self) -> u8 {
        match self {
            TransactionKind::Request => 1,
            TransactionKind::Response => 2,
        }
    }
}

/// A request's or response's header, viewed in place.
///
/// The message length is inside, so that a TCP stream can be cut into messages; the wanted length
/// of the reply is inside, so that a server needs no setting to serve different clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Transaction<T> {
    /// Views `buffer` without looking at it. The accessors panic when it is shorter than [`HEADER_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Transaction<T> {
        Transaction { buffer }
    }

    pub fn new_checked(buffer: T) -> Result<Transaction<T>, Error> {
        check_len(buffer.as_ref())?;
        Ok(Transaction { buffer })
    }

    pub fn magic(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::MAGIC)
    }

    pub fn kind(&self) -> u8 {
        self.buffer.as_ref()[field::KIND]
    }

    pub fn sequence(&self) -> u32 {
        u32_at(self.buffer.as_ref(), field::SEQUENCE)
    }

    pub fn message_bytes(&self) -> u32 {
        u32_at(self.buffer.as_ref(), field::MESSAGE_BYTES)
    }

    /// Length of the reply asked for, header included, in bytes.
    pub fn reply_bytes(&self) -> u32 {
        u32_at(self.buffer.as_ref(), field::REPLY_BYTES)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Transaction<T> {
    /// Writes the sequence number, the one field that changes from request to request.
    pub fn set_sequence(&mut self, sequence: u32) {
        self.buffer.as_mut()[field::SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    }
}

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
    pub fn parse<T: AsRef<[u8]>>(message: &Transaction<T>) -> Result<TransactionRepr, Error> {
        check_len(message.buffer.as_ref())?;
        if message.magic() != TRANSACTION_MAGIC {
            return Err(Error::Magic(message.magic()));
        }
        let kind = match message.kind() {
            1 => TransactionKind::Request,
            2 => TransactionKind::Response,
            other => return Err(Error::Kind(other)),
        };
        let message_bytes = message.message_bytes();
        if (message_bytes as usize) < HEADER_BYTES {
            return Err(Error::MessageBytes(message_bytes));
        }
        Ok(TransactionRepr {
            kind,
            sequence: message.sequence(),
            message_bytes,
            reply_bytes: message.reply_bytes(),
        })
    }

    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header. Panics when the buffer is shorter than [`HEADER_BYTES`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, message: &mut Transaction<T>) {
        let bytes = message.buffer.as_mut();
        bytes[field::MAGIC].copy_from_slice(&TRANSACTION_MAGIC.to_be_bytes());
        bytes[field::KIND] = self.kind.code();
        bytes[field::RESERVED] = 0;
        bytes[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[field::MESSAGE_BYTES].copy_from_slice(&self.message_bytes.to_be_bytes());
        bytes[field::REPLY_BYTES].copy_from_slice(&self.reply_bytes.to_be_bytes());
    }
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
        let view = Packet::new_checked(&PACKET[..]).unwrap();
        assert_eq!(PacketRepr::parse(&view), Ok(PACKET_REPR));
        let mut bytes = [0xa5; 16];
        PACKET_REPR.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, PACKET);
    }

    #[test]
    fn transaction_is_read_as_written() {
        let view = Transaction::new_checked(&REQUEST[..]).unwrap();
        assert_eq!(TransactionRepr::parse(&view), Ok(REQUEST_REPR));
        let mut bytes = [0xa5; 16];
        REQUEST_REPR.emit(&mut Transaction::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, REQUEST);
        Transaction::new_unchecked(&mut bytes[..]).set_sequence(5);
        assert_eq!(Transaction::new_unchecked(&bytes[..]).sequence(), 5);
    }

    #[test]
    fn the_smallest_ethernet_frame_has_room_for_the_header() {
        const SMALLEST_UDP_PAYLOAD: usize = 64 - 14 - 20 - 8 - 4;
        const { assert!(HEADER_BYTES <= SMALLEST_UDP_PAYLOAD) };
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(
            Packet::new_checked(&PACKET[..15]),
            Err(Error::Truncated(15))
        );
        assert_eq!(
            PacketRepr::parse(&Packet::new_unchecked(&PACKET[..3])),
            Err(Error::Truncated(3)),
        );
        assert_eq!(
            PacketRepr::parse(&Packet::new_unchecked(REQUEST)),
            Err(Error::Magic(0x4c52))
        );
        assert_eq!(
            TransactionRepr::parse(&Transaction::new_unchecked(PACKET)),
            Err(Error::Magic(0x4c50)),
        );
        let mut bytes = REQUEST;
        bytes[2] = 3;
        assert_eq!(
            TransactionRepr::parse(&Transaction::new_unchecked(bytes)),
            Err(Error::Kind(3)),
        );
        let mut bytes = REQUEST;
        bytes[11] = 15;
        assert_eq!(
            TransactionRepr::parse(&Transaction::new_unchecked(bytes)),
            Err(Error::MessageBytes(15)),
        );
    }
}
