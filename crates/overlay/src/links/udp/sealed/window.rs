//! Replay detection.

/// A ring of bits, one per counter below the highest (RFC 6479).
#[derive(Debug, Clone)]
pub(super) struct Window {
    next: u64,
    seen: [u64; Self::WORDS],
}

impl Window {
    const WORDS: usize = 33;
    /// Counters in the window; one word is always being cleared.
    pub const COUNTERS: u64 = (Self::WORDS as u64 - 1) * 64;

    pub fn new() -> Window {
        Window {
            next: 0,
            seen: [0; Self::WORDS],
        }
    }

    /// Whether a counter may be new; checked before decryption.
    pub fn may_be_new(&self, counter: u64) -> bool {
        counter >= self.next || (self.next - counter <= Self::COUNTERS && !self.bit(counter))
    }

    /// Marks the counter of an authentic datagram.
    pub fn mark(&mut self, counter: u64) {
        if counter >= self.next {
            let (old, new) = (self.next / 64, counter / 64);
            // Words that the window moves into hold old bits.
            let fresh = if self.next % 64 == 0 { old } else { old + 1 };
            for word in fresh..=new.min(fresh + Self::WORDS as u64 - 1) {
                self.seen[Self::index(word)] = 0;
            }
            if new >= fresh + Self::WORDS as u64 {
                self.seen = [0; Self::WORDS];
            }
            self.next = counter + 1;
        }
        self.seen[Self::index(counter / 64)] |= 1 << (counter % 64);
    }

    fn bit(&self, counter: u64) -> bool {
        self.seen[Self::index(counter / 64)] & 1 << (counter % 64) != 0
    }

    fn index(word: u64) -> usize {
        usize::try_from(word % Self::WORDS as u64).unwrap_or(0)
    }
}
