//! Offloads of a frame: checksums and segmentation that the sender left to the device.
//!
//! `struct virtio_net_hdr` (virtio 1.2, 5.1.6), as in rings, taps and packet sockets. A guest's header is read once and
//! checked against the frame before use.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gso {
    #[default]
    None,
    Tcp4,
    Tcp6,
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    pub gso: Gso,
    /// Congestion mark (TCP's ECN with segmentation).
    pub ecn: bool,
    /// Payload of each segment, in bytes; zero without segmentation.
    pub gso_size: u16,
    /// Start of the bytes to sum, and offset of the sum from there, if the checksum is left to compute.
    pub checksum: Option<(u16, u16)>,
    pub verified: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// CVE-2024-11614 in DPDK.
    #[error("the checksum lies outside the frame")]
    Checksum,
    /// Unknown kind, or no segment size.
    #[error("unknown segmentation")]
    Segmentation,
}

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl Offload {
    /// Length of the header without the number of buffers.
    pub const BYTES: usize = 10;

    pub fn parse(header: &[u8; Self::BYTES], frame: usize) -> Result<Offload, OffloadError> {
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let gso = match header[1] & !GSO_ECN {
            0 => Gso::None,
            GSO_TCPV4 => Gso::Tcp4,
            GSO_TCPV6 => Gso::Tcp6,
            GSO_UDP_L4 => Gso::Udp,
            _ => return Err(OffloadError::Segmentation),
        };
        let needs_checksum = header[0] & NEEDS_CSUM != 0;
        let (start, offset) = (word(6), word(8));
        if needs_checksum && usize::from(start) + usize::from(offset) + 2 > frame {
            return Err(OffloadError::Checksum);
        }
        let gso_size = word(4);
        if gso != Gso::None && (gso_size == 0 || !needs_checksum) {
            return Err(OffloadError::Segmentation);
        }
        Ok(Offload {
            gso,
            // Without segmentation the bit means nothing (virtio 1.2, 5.1.6.2), and is not passed on.
            ecn: gso != Gso::None && header[1] & GSO_ECN != 0,
            gso_size: if gso == Gso::None { 0 } else { gso_size },
            checksum: needs_checksum.then_some((start, offset)),
            verified: header[0] & DATA_VALID != 0,
        })
    }

    /// Encodes the header; `headers`: length of the frame's headers, a hint for segmentation.
    #[must_use]
    #[inline]
    pub fn encode(&self, headers: u16) -> [u8; Self::BYTES] {
        let (start, offset) = self.checksum.unwrap_or_default();
        let flags = if self.checksum.is_some() {
            NEEDS_CSUM
        } else if self.verified {
            DATA_VALID
        } else {
            0
        };
        let (mut kind, headers) = match self.gso {
            Gso::None => (0, 0),
            Gso::Tcp4 => (GSO_TCPV4, headers),
            Gso::Tcp6 => (GSO_TCPV6, headers),
            Gso::Udp => (GSO_UDP_L4, headers),
        };
        if self.gso != Gso::None && self.ecn {
            kind |= GSO_ECN;
        }
        // As one number: reading the whole would wait for the stores of its parts (store forwarding), for every frame.
        let all = u128::from(u16::from_le_bytes([flags, kind]))
            | u128::from(headers) << 16
            | u128::from(self.gso_size) << 32
            | u128::from(start) << 48
            | u128::from(offset) << 64;
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&all.to_le_bytes()[..Self::BYTES]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_they_are_encoded() {
        let offload = Offload {
            gso: Gso::Tcp6,
            ecn: true,
            gso_size: 1440,
            checksum: Some((54, 16)),
            verified: false,
        };
        assert_eq!(Offload::parse(&offload.encode(74), 9000), Ok(offload));
    }

    #[test]
    fn a_checksum_beyond_the_frame_is_refused() {
        let offload = Offload {
            checksum: Some((34, 16)),
            ..Offload::default()
        };
        let bytes = offload.encode(0);
        assert_eq!(Offload::parse(&bytes, 52), Ok(offload));
        assert_eq!(Offload::parse(&bytes, 51), Err(OffloadError::Checksum));
    }

    #[test]
    fn segments_need_a_size_and_a_checksum() {
        let mut bytes = Offload {
            gso: Gso::Tcp4,
            gso_size: 1448,
            checksum: Some((34, 16)),
            ..Offload::default()
        }
        .encode(66);
        bytes[4..6].fill(0);
        assert_eq!(
            Offload::parse(&bytes, 3000),
            Err(OffloadError::Segmentation)
        );
        bytes[4] = 200;
        bytes[0] = 0;
        assert_eq!(
            Offload::parse(&bytes, 3000),
            Err(OffloadError::Segmentation)
        );
        bytes[1] = 7;
        assert_eq!(
            Offload::parse(&bytes, 3000),
            Err(OffloadError::Segmentation)
        );
    }

    /// A guest may set it; the next one must not read it.
    #[test]
    fn congestion_without_segmentation_is_left_out() {
        let header = [0, GSO_ECN, 0, 0, 0, 0, 0, 0, 0, 0];
        let read = Offload::parse(&header, 60).unwrap();
        assert!(!read.ecn);
        assert_eq!(Offload::parse(&read.encode(0), 60), Ok(read));
    }
}
