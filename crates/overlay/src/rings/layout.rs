//! Layout of the split ring (virtio 1.2, 2.7).

pub const NEXT: u16 = 1;
/// The device writes the buffer; otherwise it reads.
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const DESCRIPTOR: usize = 16;

/// The device suppresses kicks (used ring's flags).
pub const NO_NOTIFY: u16 = 1;
/// The driver suppresses interrupts (available ring's flags).
pub const NO_INTERRUPT: u16 = 1;

pub const MAX_ENTRIES: u32 = 32768;

/// Offsets in the available and used rings: flags, the index after the last entry, and the first entry.
pub const FLAGS: usize = 0;
pub const INDEX: usize = 2;
pub const ENTRIES: usize = 4;

/// Bytes of the available ring, with the word for the used event at its end.
pub const fn available_bytes(size: u16) -> usize {
    ENTRIES + 2 * size as usize + 2
}

/// Bytes of the used ring, with the word for the available event at its end.
pub const fn used_bytes(size: u16) -> usize {
    ENTRIES + 8 * size as usize + 2
}

#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    pub address: u64,
    pub len: u32,
    /// `NEXT`, `WRITE`, `INDIRECT`.
    pub flags: u16,
    /// The next descriptor, if `NEXT` is set.
    pub next: u16,
}

impl Descriptor {
    #[inline]
    pub const fn new([address, rest]: [u64; 2]) -> Descriptor {
        Descriptor {
            address,
            len: rest as u32,
            flags: (rest >> 32) as u16,
            next: (rest >> 48) as u16,
        }
    }

    #[inline]
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

/// Whether the index has passed `event` between `old` and `new`, so that the peer wants a notification (virtio 1.2,
/// 2.7.7.2).
pub const fn passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_passed_once_even_across_the_wraparound() {
        assert!(passed(5, 6, 5));
        assert!(!passed(5, 5, 4));
        assert!(!passed(5, 7, 6));
        assert!(passed(u16::MAX, 0, u16::MAX));
        assert!(passed(u16::MAX, 3, 65530));
        assert!(!passed(3, 3, 65530));
        assert!(!passed(9, 9, 9));
    }
}
