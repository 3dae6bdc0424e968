//! Owners of what ends with a client's connection.

use std::sync::atomic::{AtomicU64, Ordering};

/// A client's connection that holds frames, or adapts the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(u64);

impl Holder {
    /// One that is no other.
    #[must_use]
    pub fn unique() -> Holder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Holder(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
