//! Memory shared with a guest: mapped, bounded, read and written by address. The only unsafe code of rings.
//!
//! Shared memory never becomes a reference, because the guest may write at any moment. The bounds of an [`Area`] or a [`Region`] are
//! checked once, and every access is inside them.

mod area;
mod handover;
mod mapping;
mod truncation;

pub use area::Area;
pub use handover::{Handover, Taken};
pub use mapping::{Place, Region};

#[inline]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches a cache line to be written. Otherwise it would be fetched twice from the guest's CPU: shared, then exclusive.
#[inline]
pub(super) fn prefetch_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; CPUs without the instruction do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A full barrier: earlier stores are visible before later loads. Cheaper than a fence, which also waits for loads in
/// flight.
#[inline]
pub(super) fn barrier() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds nothing to a word of the stack; the CPU's manual makes it a full barrier, and
    // for the compiler it touches all memory.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp - 64], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
