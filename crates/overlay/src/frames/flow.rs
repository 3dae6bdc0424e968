//! Flow hashes: frames of one flow stay in order, so they take one path.

use super::batch::Frame;
use super::headers::Headers;

impl Frame {
    /// A hash below 2³² of the Ethernet addresses, and of IP addresses and ports if there are any.
    #[must_use]
    pub fn flow(&self) -> u64 {
        let head = self.head();
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        hash.add(&head[..12]);
        if let Ok(headers) = Headers::parse(head) {
            let addresses = if headers.ipv6 { 8..40 } else { 12..20 };
            hash.add(&head[headers.network..][addresses]);
            hash.add(&head[headers.transport..][..4]);
        }
        hash.0 >> 32
    }
}

/// FNV (Fowler, Noll, Vo 1991), four bytes at a time.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for word in bytes.chunks_exact(4) {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3);
            self.0 ^= self.0 >> 29;
        }
    }
}
