//! When a node stood still for what was done to it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Moments in ns of the host's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stood {
    pub stopped_ns: u64,
    /// When it went on; of a node that moved, when its network had followed.
    pub running_ns: u64,
}

impl Stood {
    pub fn lasted(&self) -> Duration {
        Duration::from_nanos(self.running_ns.saturating_sub(self.stopped_ns))
    }
}

/// The host's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}
