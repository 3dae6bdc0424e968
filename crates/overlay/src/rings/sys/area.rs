//! Memory of a ring: descriptors, available and used entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use super::mapping::{Place, Region};

/// A part of a region, checked once and aligned, which keeps the region alive. Cached ring pointers are safe because
/// pointer *and* length stay together.
#[derive(Debug, Clone)]
pub struct Area {
    start: *mut u8,
    len: usize,
    place: Place,
    _region: Arc<Region>,
}

// SAFETY: see `Region`: an address range that stays mapped, accessed by atomics and volatile copies.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// `len` bytes of a region from `at` on; none unless all of it is inside, and aligned to `align`.
    pub fn new(region: &Arc<Region>, at: usize, len: usize, align: usize) -> Option<Area> {
        let place = region.place(at, len)?;
        let start = place.address().cast_mut();
        (start as usize % align == 0).then(|| Area {
            start,
            len,
            place,
            _region: Arc::clone(region),
        })
    }

    #[inline]
    pub fn place(&self) -> Place {
        self.place
    }

    #[inline]
    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at + bytes <= self.len, "an access outside of a ring");
        // SAFETY: checked above.
        unsafe { self.start.add(at) }
    }

    #[inline]
    pub fn load_u16(&self, at: usize, order: Ordering) -> u16 {
        // SAFETY: inside, mapped; the areas are aligned to two bytes and `at` is even (asserted).
        let word = unsafe { &*self.aligned(at).cast::<AtomicU16>() };
        u16::from_le(word.load(order))
    }

    #[inline]
    pub fn store_u16(&self, at: usize, value: u16, order: Ordering) {
        // SAFETY: as in `load_u16`.
        let word = unsafe { &*self.aligned(at).cast::<AtomicU16>() };
        word.store(value.to_le(), order);
    }

    #[inline]
    fn aligned(&self, at: usize) -> *mut u8 {
        assert!(at % 2 == 0, "words of a ring lie on even addresses");
        self.at(at, 2)
    }

    /// Writes eight bytes: a used entry.
    #[inline]
    pub fn store_u64(&self, at: usize, value: u64) {
        // SAFETY: inside and mapped.
        unsafe { self.at(at, 8).cast::<u64>().write_unaligned(value.to_le()) };
    }

    /// Sets bits of a byte that other threads change too: the log of written pages.
    pub fn set_bits(&self, at: usize, bits: u8) {
        // SAFETY: inside and mapped.
        let byte = unsafe { &*self.at(at, 1).cast::<AtomicU8>() };
        byte.fetch_or(bits, Ordering::Relaxed);
    }
}
