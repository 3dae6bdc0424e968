//! Borrowed memory: the only unsafe code of frames.

/// Memory of a guest or of a receive buffer. It never becomes a reference, because a guest may write to it at any moment:
/// it is only copied from.
///
/// Its maker promises that it stays mapped until the batch that holds it is complete.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    start: *const u8,
    len: usize,
}

// SAFETY: a segment is an address and a length; what it points to is only read by copying, and the
// maker's promise (see `new`) does not depend on the thread.
unsafe impl Send for Segment {}

impl Segment {
    /// # Safety
    ///
    /// `start..start + len` must stay mapped and readable until the batch is complete.
    #[must_use]
    pub const unsafe fn new(start: *const u8, len: usize) -> Segment {
        Segment { start, len }
    }

    /// A segment of memory that is never freed.
    #[must_use]
    pub fn of(bytes: &'static [u8]) -> Segment {
        Segment {
            start: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    #[must_use]
    pub const fn len(self) -> usize {
        self.len
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub const fn as_ptr(self) -> *const u8 {
        self.start
    }

    /// The part from `offset` on, at most `len` bytes; shorter or empty where the segment ends.
    #[must_use]
    #[inline]
    pub fn slice(self, offset: usize, len: usize) -> Segment {
        let offset = offset.min(self.len);
        Segment {
            // SAFETY: `offset` is at most the length, so the address is inside or one past the end.
            start: unsafe { self.start.add(offset) },
            len: len.min(self.len - offset),
        }
    }

    /// Copies the start into `to`; returns the number of bytes.
    #[inline]
    pub fn copy_to(self, to: &mut [u8]) -> usize {
        let len = self.len.min(to.len());
        // SAFETY: the maker promised that the segment is mapped; both are at least `len` long.
        unsafe { copy(self.start, to.as_mut_ptr(), len) };
        len
    }

    pub fn append_to(self, to: &mut Vec<u8>) {
        let at = to.len();
        to.resize(at + self.len, 0);
        self.copy_to(&mut to[at..]);
    }

    /// The sum of 16-bit words in the machine's byte order; see [`super::checksum`].
    #[must_use]
    pub(super) fn sum(self) -> u64 {
        // SAFETY: the maker promised that the segment is mapped.
        unsafe { sum_raw(self.start, self.len) }
    }

    /// Copies the start, at most `room` bytes, to `to`; returns the number of bytes.
    ///
    /// # Safety
    ///
    /// `to..to + room` must be mapped and writable. It may be a guest's memory and may overlap the
    /// segment (a guest may offer one buffer in both directions).
    #[inline]
    pub unsafe fn copy_to_raw(self, to: *mut u8, room: usize) -> usize {
        let len = self.len.min(room);
        // SAFETY: as promised by the maker of the segment and by the caller.
        unsafe { copy(self.start, to, len) };
        len
    }
}

/// Copies; both may overlap. Most frames are small, and the call of the C library's function for 64 bytes takes as long as
/// the copy. So up to 128 bytes go through registers, all of them read before the first is written.
///
/// # Safety
///
/// Both must be mapped for `len` bytes, and `to` writable. Others may write to them meanwhile.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: each of these offsets and the sixteen bytes behind it are inside of `len`.
    let read = |at: usize| unsafe { from.add(at).cast::<[u64; 2]>().read_unaligned() };
    // SAFETY: as above.
    let write = |at: usize, it| unsafe { to.add(at).cast::<[u64; 2]>().write_unaligned(it) };
    match len {
        16..=32 => {
            let (a, b) = (read(0), read(len - 16));
            write(0, a);
            write(len - 16, b);
        }
        33..=64 => {
            let (a, b, c, d) = (read(0), read(16), read(len - 32), read(len - 16));
            write(0, a);
            write(16, b);
            write(len - 32, c);
            write(len - 16, d);
        }
        65..=128 => {
            let first = [read(0), read(16), read(32), read(48)];
            let last = [64, 48, 32, 16].map(|back| read(len - back));
            for (at, it) in [0, 16, 32, 48].into_iter().zip(first) {
                write(at, it);
            }
            for (back, it) in [64, 48, 32, 16].into_iter().zip(last) {
                write(len - back, it);
            }
        }
        // SAFETY: as promised by the caller.
        _ => unsafe { std::ptr::copy(from, to, len) },
    }
}

/// The sum of 16-bit words in the machine's byte order, the last byte of an odd number padded with a zero.
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    // SAFETY: a slice is mapped.
    unsafe { sum_raw(bytes.as_ptr(), bytes.len()) }
}

/// As [`sum_of`], without a reference: a guest may write meanwhile.
///
/// Adds pairs of 32-bit words in 64 bits, which compilers vectorize and which cannot overflow below 16 GiB.
///
/// # Safety
///
/// `start..start + len` must be mapped and readable.
unsafe fn sum_raw(start: *const u8, len: usize) -> u64 {
    const BLOCK: usize = 64;
    let mut totals = [0_u64; BLOCK / 8];
    let blocks = len / BLOCK;
    for block in 0..blocks {
        for (lane, total) in totals.iter_mut().enumerate() {
            // SAFETY: the block, and so each of its words, is inside of `len`.
            let word = unsafe {
                start
                    .add(block * BLOCK + lane * 8)
                    .cast::<u64>()
                    .read_unaligned()
            };
            *total += (word & 0xffff_ffff) + (word >> 32);
        }
    }
    let mut total: u64 = totals.iter().sum();
    let mut at = blocks * BLOCK;
    while len - at >= 2 {
        // SAFETY: two bytes are left.
        total += u64::from(unsafe { start.add(at).cast::<u16>().read_unaligned() });
        at += 2;
    }
    if at < len {
        // SAFETY: one byte is left.
        let last = unsafe { start.add(at).read() };
        total += u64::from(u16::from_ne_bytes([last, 0]));
    }
    total
}
