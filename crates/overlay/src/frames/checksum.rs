//! The Internet checksum (RFC 1071), over scattered bytes.
//!
//! Words are summed in the machine's byte order: the sum of swapped words is the swapped sum (RFC 1071, 2 (B)), so the
//! result is stored unswapped.

use super::sys::{Segment, sum_of};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// Whether an odd number of bytes was added: the next one is the second of its word.
    odd: bool,
}

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.take(sum_of(bytes), bytes.len());
    }

    /// Adds borrowed memory, read once: a guest that changes it meanwhile only gets a wrong sum.
    pub fn add_segment(&mut self, segment: Segment) {
        self.take(segment.sum(), segment.len());
    }

    /// Adds a number as a word in network order, as pseudo headers do with protocols and lengths.
    pub fn add_number(&mut self, number: u32) {
        self.add(&number.to_be_bytes());
    }

    fn take(&mut self, sum: u64, len: usize) {
        let folded = fold(sum);
        self.total += u64::from(if self.odd {
            folded.swap_bytes()
        } else {
            folded
        });
        self.odd ^= len % 2 == 1;
    }

    /// The complement, as stored in a header.
    #[must_use]
    pub fn finish(self) -> [u8; 2] {
        (!fold(self.total)).to_ne_bytes()
    }

    /// The sum itself, as stored in a header whose checksum is left to compute.
    #[must_use]
    pub fn partial(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }

    /// As [`Sum::finish`], with 0xffff instead of zero, which in UDP means "no checksum" (RFC 768).
    #[must_use]
    pub fn finish_nonzero(self) -> [u8; 2] {
        match self.finish() {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        }
    }

    #[must_use]
    pub fn is_valid(self) -> bool {
        fold(self.total) == 0xffff
    }
}

#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::random::Random;

    /// Word by word, as the RFC writes it.
    fn by_the_book(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), (!0xddf2_u16).to_be_bytes());
    }

    #[test]
    fn pieces_of_any_length_give_the_same_sum() {
        let mut random = Random(7);
        let bytes = random.bytes(3000);
        for _ in 0..500 {
            let len = random.below(bytes.len() as u64) as usize;
            let mut sum = Sum::default();
            let mut at = 0;
            while at < len {
                let piece = (1 + random.below(200) as usize).min(len - at);
                sum.add(&bytes[at..at + piece]);
                at += piece;
            }
            let expected = by_the_book(&bytes[..len]);
            assert_eq!(u16::from_be_bytes(sum.finish()), expected, "{len} bytes");
        }
    }

    #[test]
    fn zero_is_stored_as_ones_where_it_has_a_meaning() {
        let mut sum = Sum::default();
        sum.add(&[0xff, 0xff]);
        assert_eq!(sum.finish(), [0, 0]);
        assert_eq!(sum.finish_nonzero(), [0xff, 0xff]);
        assert!(sum.is_valid());
    }
}
