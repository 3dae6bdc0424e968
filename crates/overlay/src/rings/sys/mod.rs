//! Memory shared with a guest: mapped, bounded, read and written by address. The only unsafe code of
//! rings.
//!
//! Nothing here becomes a reference, because the guest may write at any moment. Whoever holds an
//! [`Area`] or a [`Region`] has checked its bounds once; every access is inside them.

mod area;
mod handover;
mod mapping;
mod truncation;

pub use area::Area;
pub use handover::{Handover, Taken};
pub use mapping::{Place, Region};

/// Tells the processor that this address will be read soon.
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

/// Tells the processor that this address will be written soon: else its cache line is fetched twice
/// from the guest's processor, once to be read and once to be ours.
#[inline]
pub(super) fn prefetch_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; processors that do not know the instruction do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// What was written before is seen by others before what follows is read. The same as a fence, by an
/// instruction that does not also wait for what was begun to be read.
#[inline]
pub(super) fn barrier() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds nothing to a word of the stack; the processor's manual makes it a full barrier, and
    // for the compiler it touches all memory.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp - 64], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
