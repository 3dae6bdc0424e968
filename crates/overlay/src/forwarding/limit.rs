//! The limit of broadcasts, multicasts and unknown destinations of a port.

/// A token bucket that holds one second's worth. Times are in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    /// Tokens, in billionths of a frame.
    level: u64,
    last: u64,
}

impl Limit {
    /// Takes a token if there is one, at `rate` frames per second.
    pub fn admits(&mut self, rate: u32, now: u64) -> bool {
        const FRAME: u64 = 1_000_000_000;
        let full = u64::from(rate) * FRAME;
        let elapsed = now.saturating_sub(self.last).min(FRAME);
        // The bucket is full before the first frame.
        let gained = if self.last == 0 {
            full
        } else {
            u64::from(rate) * elapsed
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
    fn one_second_of_burst_then_the_rate() {
        let mut limit = Limit::default();
        let at_once = (0..50).filter(|_| limit.admits(10, 1_000)).count();
        assert_eq!(at_once, 10);
        assert!(!limit.admits(10, 50_000_000));
        assert!(limit.admits(10, 120_000_000));
        assert!(!limit.admits(0, 10_000_000_000));
    }
}
