//! How many frames for everybody a port may send.

/// A token bucket: a second's worth may come at once. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    /// Billionths of a frame that may still pass.
    level: u64,
    last: u64,
}

impl Limit {
    /// Whether one more may pass now, at `rate` frames per second.
    pub fn admits(&mut self, rate: u32, now: u64) -> bool {
        const FRAME: u64 = 1_000_000_000;
        let full = u64::from(rate) * FRAME;
        let elapsed = now.saturating_sub(self.last).min(FRAME);
        // Before the first frame the bucket is as good as full.
        let gained = match self.last {
            0 => full,
            _ => u64::from(rate) * elapsed,
        };
        self.last = now.max(1);
        self.level = (self.level + gained).min(full);
        let admitted = self.level >= FRAME;
        if admitted {
            self.level -= FRAME;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_frames_at_once_and_then_the_rate() {
        let mut limit = Limit::default();
        let at_once = (0..50).filter(|_| limit.admits(10, 1_000)).count();
        assert_eq!(at_once, 10);
        assert!(!limit.admits(10, 50_000_000));
        assert!(limit.admits(10, 120_000_000));
        assert!(!limit.admits(0, 10_000_000_000));
    }
}
