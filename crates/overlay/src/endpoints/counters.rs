//! Statistics of a port.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::drop_reason::DropReason;
use crate::sync::lock;

/// A port's counters: written by its dispatchers once per batch, read by any thread.
#[derive(Debug, Default)]
pub struct Counters {
    pub received: Traffic,
    pub sent: Traffic,
    /// Frames dropped, by [`DropReason`].
    dropped: [AtomicU64; DropReason::ALL.len()],
    pub kicks: AtomicU64,
    /// Notifications of the peer (virtual interrupts).
    pub interrupts: AtomicU64,
    pub batches: AtomicU64,
    pub mode_changes: AtomicU64,
    /// Rings and connections ended for the peer's errors.
    pub faults: AtomicU64,
    /// Polls that the watchdog found to take long.
    pub slow_rounds: AtomicU64,
    trouble: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
pub struct Traffic {
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
    pub copied: AtomicU64,
}

impl Traffic {
    pub fn add(&self, frames: u64, bytes: u64) {
        self.frames.fetch_add(frames, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// Adds to a counter that no other thread adds to. An atomic addition would wait for all earlier stores to a guest's
/// memory, and a pass of one frame has seven additions.
#[inline]
pub fn add_unshared(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

impl Counters {
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.received.copied.load(Relaxed) + self.sent.copied.load(Relaxed)
    }

    #[cold]
    pub fn note(&self, trouble: String) {
        self.faults.fetch_add(1, Relaxed);
        self.tell(trouble);
    }

    /// Stores the last error without counting it.
    pub fn tell(&self, trouble: String) {
        *lock(&self.trouble) = Some(trouble);
    }

    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    pub fn drop_frames(&self, reason: DropReason, frames: u64) {
        self.dropped[reason as usize].fetch_add(frames, Relaxed);
    }

    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }
}
