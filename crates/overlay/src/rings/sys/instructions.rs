//! Instructions of the CPU: prefetches of cache lines, and a full barrier.

#[inline]
pub(in crate::rings) fn prefetch(at: *const u8) {
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
pub(in crate::rings) fn prefetch_write(at: *const u8) {
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
pub(in crate::rings) fn barrier() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds nothing to a word of the stack; the CPU's manual makes it a full barrier, and
    // for the compiler it touches all memory.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp - 64], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
