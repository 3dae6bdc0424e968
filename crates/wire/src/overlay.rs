//! The headers that the overlay's links put in front of an Ethernet frame.
//!
//! **VXLAN** ([`Vxlan`], 8 bytes, RFC 7348 section 5), for every peer that speaks it:
//!
//! ```text
//!           0        1        2        3        4        5        6        7
//!      0  | 0x08   | reserved                 | network                  | 0      |
//! ```
//!
//! **The private form** ([`PrivateHeader`], 40 bytes), between daemons of this kind. VXLAN has no room for two
//! things that it carries. One is a frame still to be segmented (GSO) whose checksum is still to be computed,
//! described by the 10 bytes of `struct virtio_net_hdr` (virtio 1.2, 5.1.6). The other is a frame larger than
//! the path's MTU, in slices.
//!
//! ```text
//!           0        1        2        3        4        5        6        7
//!      0  | 'L'    | 0x01   | hops   | 0      | network (24 bits used)            |
//!      8  | origin                                                                |
//!     16  | frame number                      | bytes of the whole frame          |
//!     24  | offset of this slice              | virtio_net_hdr                    |
//!     32  | virtio_net_hdr, continued                           | 0               |
//!     40  | the slice ...
//! ```
//!
//! - *hops* counts down by one at every sender; a frame that arrives with 0 is not sent on. *origin* is
//!   the number that the daemon where the frame entered gave itself by chance; a daemon drops what it
//!   sent itself. Together they end loops, which Ethernet itself never does.
//! - *frame number* counts up at the sender, for each peer, and tells the slices of one frame from
//!   those of another. Slices of a frame have the same length but for the last, so an offset is a
//!   multiple of it. A slice that is the whole frame has offset 0.
//! - All numbers are big endian, but for those of `virtio_net_hdr`, which are little endian as in
//!   virtio.
//!
//! **The sealed form** ([`Sealed`], 16 bytes, then the private form encrypted, then a tag of 16 bytes). *Session* is
//! the number that the receiver gave to the keys in its half of the handshake; *counter* is the nonce (its 8 bytes big
//! endian behind four zeros), never used twice with the same key. The 16 bytes are authenticated with the rest.
//!
//! ```text
//!           0        1        2        3        4        5        6        7
//!      0  | 'L'    | 0x02   | 0               | session                           |
//!      8  | counter                                                               |
//! ```
//!
//! **The handshake** ([`Handshake`], 12 bytes, then the sender's time in nanoseconds (8 bytes), a message of Noise_IK
//! and an HMAC-SHA-256 over the sender's public key and all before it). *Sender* is the number by which who sends this
//! wants the session to be called; *receiver* is 0 in the first message and the first one's *sender* in the second.
//!
//! ```text
//!           0        1        2        3        4        5        6        7
//!      0  | 'L'    |0x03,4  | 0               | sender                            |
//!      8  | receiver                          | time                              |
//!     16  | time, continued                   | Noise ...                         |
//! ```
//!
//! **Over TCP** every frame is one record: the length of what follows (4 bytes), then the private form.

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    #[error("shorter than its header")]
    Truncated,
    /// Flags, a magic number or a version that no sender uses.
    #[error("not of this form")]
    Form,
    /// Lengths and offsets that contradict each other, or are beyond every bound.
    #[error("lengths that cannot be")]
    Length,
}

/// Largest frame: an IP packet of 64 KiB behind Ethernet and what may be between.
pub const MAX_FRAME_BYTES: usize = 65_536 + 128;
pub const MAX_SLICES: usize = 128;
pub const MAX_NETWORK: u32 = (1 << 24) - 1;

const MAGIC: u8 = b'L';

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vxlan {
    /// The network, 24 bits.
    pub network: u32,
}

impl Vxlan {
    pub const BYTES: usize = 8;

    /// Reads a datagram: its header and the frame. Errors: a datagram without the flag that says that it has a
    /// network. Everything reserved is ignored, as the RFC asks.
    pub fn parse(datagram: &[u8]) -> Result<(Vxlan, &[u8]), Error> {
        if datagram.len() < Self::BYTES {
            return Err(Error::Truncated);
        }
        if datagram[0] & 0x08 == 0 {
            return Err(Error::Form);
        }
        let network = u32_at(datagram, 4) >> 8;
        Ok((Vxlan { network }, &datagram[Self::BYTES..]))
    }

    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let network = (self.network & MAX_NETWORK) << 8;
        let [a, b, c, d] = network.to_be_bytes();
        [0x08, 0, 0, 0, a, b, c, d]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateHeader {
    /// How many more daemons may send the frame on.
    pub hops: u8,
    /// The network, 24 bits.
    pub network: u32,
    /// Where the frame entered.
    pub origin: u64,
    /// Which frame of the sender's.
    pub number: u32,
    /// Bytes of the whole frame.
    pub whole: u32,
    /// Where in it this slice belongs.
    pub offset: u32,
    /// `virtio_net_hdr` of the whole frame, not looked at here.
    pub offload: [u8; 10],
}

impl PrivateHeader {
    pub const BYTES: usize = 40;

    /// Reads a datagram: its header and the slice, which lies inside of the frame. Errors: anything that an honest
    /// sender does not send.
    pub fn parse(datagram: &[u8]) -> Result<(PrivateHeader, &[u8]), Error> {
        if datagram.len() < Self::BYTES {
            return Err(Error::Truncated);
        }
        if datagram[0] != MAGIC || datagram[1] != 1 {
            return Err(Error::Form);
        }
        let mut offload = [0; 10];
        offload.copy_from_slice(&datagram[28..38]);
        let carried = PrivateHeader {
            hops: datagram[2],
            network: u32_at(datagram, 4),
            origin: u64_at(datagram, 8),
            number: u32_at(datagram, 16),
            whole: u32_at(datagram, 20),
            offset: u32_at(datagram, 24),
            offload,
        };
        let slice = &datagram[Self::BYTES..];
        let (whole, offset) = (carried.whole as usize, carried.offset as usize);
        if carried.network > MAX_NETWORK
            || !(14..=MAX_FRAME_BYTES).contains(&whole)
            || slice.is_empty()
            || offset + slice.len() > whole
        {
            return Err(Error::Length);
        }
        Ok((carried, slice))
    }

    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..3].copy_from_slice(&[MAGIC, 1, self.hops]);
        bytes[4..8].copy_from_slice(&self.network.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.origin.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.whole.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.offset.to_be_bytes());
        bytes[28..38].copy_from_slice(&self.offload);
        bytes
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Which keys, as the receiver calls them.
    pub session: u32,
    pub counter: u64,
}

impl Sealed {
    pub const BYTES: usize = 16;
    pub const TAG_BYTES: usize = 16;

    /// Reads a datagram: its header and the rest, which is at least a tag.
    pub fn parse(datagram: &[u8]) -> Result<(Sealed, &[u8]), Error> {
        if datagram.len() < Self::BYTES + Self::TAG_BYTES {
            return Err(Error::Truncated);
        }
        if datagram[..4] != [MAGIC, 2, 0, 0] {
            return Err(Error::Form);
        }
        let sealed = Sealed {
            session: u32_at(datagram, 4),
            counter: u64_at(datagram, 8),
        };
        Ok((sealed, &datagram[Self::BYTES..]))
    }

    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&[MAGIC, 2]);
        bytes[4..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    pub answer: bool,
    /// The sender's index of the session.
    pub sender: u32,
    /// The receiver's index of the session, in an answer.
    pub receiver: u32,
}

impl Handshake {
    pub const BYTES: usize = 12;

    /// Reads a datagram: its header and the rest.
    pub fn parse(datagram: &[u8]) -> Result<(Handshake, &[u8]), Error> {
        if datagram.len() < Self::BYTES {
            return Err(Error::Truncated);
        }
        let answer = match datagram[..4] {
            [MAGIC, 3, 0, 0] => false,
            [MAGIC, 4, 0, 0] => true,
            _ => return Err(Error::Form),
        };
        let handshake = Handshake {
            answer,
            sender: u32_at(datagram, 4),
            receiver: u32_at(datagram, 8),
        };
        Ok((handshake, &datagram[Self::BYTES..]))
    }

    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&[MAGIC, if self.answer { 4 } else { 3 }]);
        bytes[4..8].copy_from_slice(&self.sender.to_be_bytes());
        bytes[8..].copy_from_slice(&self.receiver.to_be_bytes());
        bytes
    }
}

/// Reads the length in front of a record of a TCP link; none while it is incomplete. Errors: a record that no frame
/// makes.
pub fn record_bytes(stream: &[u8]) -> Result<Option<usize>, Error> {
    if stream.len() < 4 {
        return Ok(None);
    }
    let len = u32_at(stream, 0) as usize;
    if (PrivateHeader::BYTES + 14..=PrivateHeader::BYTES + MAX_FRAME_BYTES).contains(&len) {
        Ok(Some(len))
    } else {
        Err(Error::Length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vxlan_as_the_rfc_draws_it() {
        let header = Vxlan { network: 0x12_3456 };
        let mut datagram = header.encode().to_vec();
        assert_eq!(datagram, [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        datagram.extend([1, 2]);
        // Reserved bits are ignored.
        datagram[0] |= 0x80;
        datagram[7] = 9;
        assert_eq!(Vxlan::parse(&datagram), Ok((header, &[1_u8, 2][..])));
        datagram[0] = 0;
        assert_eq!(Vxlan::parse(&datagram), Err(Error::Form));
        assert_eq!(Vxlan::parse(&datagram[..7]), Err(Error::Truncated));
    }

    fn carried() -> PrivateHeader {
        PrivateHeader {
            hops: 3,
            network: 77,
            origin: 0x0102_0304_0506_0708,
            number: 9,
            whole: 20,
            offset: 16,
            offload: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        }
    }

    #[test]
    fn the_private_form_is_read_back() {
        let mut datagram = carried().encode().to_vec();
        datagram.extend([1, 2, 3, 4]);
        assert_eq!(datagram[..8], [b'L', 1, 3, 0, 0, 0, 0, 77]);
        assert_eq!(datagram[28..40], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0]);
        assert_eq!(
            PrivateHeader::parse(&datagram),
            Ok((carried(), &[1_u8, 2, 3, 4][..]))
        );
    }

    #[test]
    fn a_slice_beyond_its_frame_is_refused() {
        let mut datagram = carried().encode().to_vec();
        assert_eq!(PrivateHeader::parse(&datagram), Err(Error::Length), "empty");
        datagram.extend([0; 5]);
        assert_eq!(
            PrivateHeader::parse(&datagram),
            Err(Error::Length),
            "one too many"
        );
        datagram[24..28].fill(0xff);
        assert_eq!(
            PrivateHeader::parse(&datagram),
            Err(Error::Length),
            "far beyond"
        );
        datagram[20..24].fill(0xff);
        assert_eq!(PrivateHeader::parse(&datagram), Err(Error::Length), "giant");
    }

    #[test]
    fn sealed_and_handshakes_are_read_back() {
        let sealed = Sealed {
            session: 5,
            counter: 1 << 40,
        };
        let mut datagram = sealed.encode().to_vec();
        datagram.resize(Sealed::BYTES + Sealed::TAG_BYTES, 0);
        assert_eq!(Sealed::parse(&datagram).map(|read| read.0), Ok(sealed));
        assert_eq!(Sealed::parse(&datagram[1..]), Err(Error::Truncated));
        for answer in [false, true] {
            let handshake = Handshake {
                answer,
                sender: 1,
                receiver: 2,
            };
            let datagram = handshake.encode();
            assert_eq!(Handshake::parse(&datagram), Ok((handshake, &[][..])));
            assert_eq!(PrivateHeader::parse(&datagram), Err(Error::Truncated));
        }
    }

    #[test]
    fn a_record_has_a_possible_length() {
        assert_eq!(record_bytes(&[0, 0, 0]), Ok(None));
        assert_eq!(record_bytes(&[0, 0, 0, 100]), Ok(Some(100)));
        assert_eq!(record_bytes(&[0, 0, 0, 53]), Err(Error::Length));
        assert_eq!(record_bytes(&[0xff; 4]), Err(Error::Length));
    }
}
