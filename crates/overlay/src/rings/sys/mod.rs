//! Memory shared with a guest: mapped, bounded, read and written by address. The only unsafe code of
//! rings.
//!
//! Nothing here becomes a reference, because the guest may write at any moment. Whoever holds an
//! [`Area`] or a [`Region`] has checked its bounds once; every access is inside them.

mod area;
mod mapping;
mod truncation;

pub use area::Area;
pub use mapping::{Place, Region};

/// Tells the processor that this address will be read soon.
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
