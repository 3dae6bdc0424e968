//! The times that programs are given, and units of time.

pub(super) const NS_PER_S: u64 = 1_000_000_000;
pub(super) const NS_PER_MS: f64 = 1e6;

/// The times that programs are given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub duration_ns: u64,
    /// 0 for none.
    pub warmup_ns: u64,
}

impl Times {
    /// Some programs take whole seconds.
    pub fn seconds(self) -> u64 {
        self.duration_ns.div_ceil(NS_PER_S).max(1)
    }

    pub fn warmup_seconds(self) -> u64 {
        self.warmup_ns.div_ceil(NS_PER_S)
    }
}
