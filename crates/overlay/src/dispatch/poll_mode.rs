//! Adaptive polling: the change between guest-driven (interrupt) and VMM-driven (poll) dispatch, with hysteresis
//! (Cui 2013, 5.1.2, figure 5.5).
//!
//! Pure: events and times are arguments, in ns.

use latlab_model::overlay::{Mode, Thresholds};

/// Approximate duration of a wakeup. Frames that arrive within it are counted as those of one wakeup, so that frames
/// per wakeup mean the same while polling.
const WAKEUP_NS: u64 = 20_000;

#[derive(Debug, Clone)]
pub struct PollMode {
    mode: Mode,
    is_polling: bool,
    /// Average of frames per wakeup, in sixteenths.
    average: u64,
    /// Start of the current window, and its frames.
    since: u64,
    frames: u64,
    last: u64,
}

impl PollMode {
    #[must_use]
    pub fn new(mode: Mode, now: u64) -> PollMode {
        PollMode {
            mode,
            is_polling: mode == Mode::VmmDriven,
            average: 0,
            since: now,
            frames: 0,
            last: now,
        }
    }

    #[must_use]
    pub const fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// A wakeup brought `frames` frames. True if the port is polled from now on.
    pub fn after_wakeup(&mut self, frames: u64, now: u64) -> bool {
        self.last = now;
        match self.mode {
            Mode::Adaptive(Thresholds::Wakeups { enter, .. }) => {
                self.average_in(frames);
                self.is_polling = self.average >= u64::from(enter) * 16;
                (self.since, self.frames) = (now, 0);
            }
            Mode::Adaptive(Thresholds::Rate { enter, window, .. }) => {
                self.frames += frames;
                if let Some(rate) = self.rate(window.0, now) {
                    self.is_polling = rate >= u64::from(enter);
                }
            }
            Mode::GuestDriven | Mode::VmmDriven => {}
        }
        self.is_polling
    }

    /// A coalescing window of `window` ns brought `frames` frames. True if the port is polled from now on.
    pub fn after_window(&mut self, frames: u64, window: u64, now: u64) -> bool {
        let per_wakeup = match self.mode {
            Mode::Adaptive(Thresholds::Wakeups { .. }) => {
                frames * WAKEUP_NS / window.max(WAKEUP_NS)
            }
            _ => frames,
        };
        self.after_wakeup(per_wakeup, now)
    }

    #[must_use]
    pub const fn is_adaptive(&self) -> bool {
        matches!(self.mode, Mode::Adaptive(_))
    }

    /// A poll brought `frames` frames, perhaps none. False if the port is no longer polled.
    pub fn after_poll(&mut self, frames: u64, now: u64) -> bool {
        self.frames += frames;
        if frames > 0 {
            self.last = now;
        }
        match self.mode {
            Mode::Adaptive(Thresholds::Wakeups { leave, idle, .. }) => {
                if now.saturating_sub(self.since) >= WAKEUP_NS {
                    let frames = self.frames;
                    self.average_in(frames);
                    (self.since, self.frames) = (now, 0);
                    self.is_polling = self.average > u64::from(leave) * 16;
                }
                self.is_polling &= now.saturating_sub(self.last) < idle.0;
                if !self.is_polling {
                    self.average = self.average.min(u64::from(leave) * 16);
                }
            }
            Mode::Adaptive(Thresholds::Rate { leave, window, .. }) => {
                if let Some(rate) = self.rate(window.0, now) {
                    self.is_polling = rate > u64::from(leave);
                }
            }
            Mode::GuestDriven | Mode::VmmDriven => {}
        }
        self.is_polling
    }

    /// Frames per second of a window that has passed; starts the next one.
    fn rate(&mut self, window: u64, now: u64) -> Option<u64> {
        let passed = now.saturating_sub(self.since);
        if passed < window {
            return None;
        }
        let rate = u128::from(self.frames) * 1_000_000_000 / u128::from(passed.max(1));
        (self.since, self.frames) = (now, 0);
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn average_in(&mut self, frames: u64) {
        self.average = (self.average * 3 + frames.min(1 << 20) * 16) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::Nanos;

    /// Delivers frames evenly at `per_second` for `seconds`: polls every µs while polling, and wakes 20 µs after the
    /// first frame otherwise. Returns the number of mode changes.
    fn run(mode: &mut PollMode, now: &mut u64, per_second: u64, seconds: f64) -> u32 {
        let (start, end) = (*now, *now + (seconds * 1e9) as u64);
        let arrived =
            |at: u64| (u128::from(at - start) * u128::from(per_second) / 1_000_000_000) as u64;
        let (mut taken, mut changes) = (0, 0);
        while *now < end {
            let was = mode.is_polling();
            *now += if was { 1_000 } else { 20_000 };
            let frames = arrived(*now) - taken;
            taken += frames;
            if was {
                mode.after_poll(frames, *now);
            } else if frames > 0 {
                mode.after_wakeup(frames, *now);
            }
            changes += u32::from(was != mode.is_polling());
        }
        changes
    }

    fn check(thresholds: Thresholds, low: u64, between: u64, high: u64) {
        let (mut now, mut mode) = (5, PollMode::new(Mode::Adaptive(thresholds), 5));
        assert_eq!(run(&mut mode, &mut now, low, 0.5), 0, "low");
        assert!(!mode.is_polling());
        assert_eq!(
            run(&mut mode, &mut now, between, 0.5),
            0,
            "between, from below"
        );
        assert_eq!(run(&mut mode, &mut now, high, 0.5), 1, "high");
        assert!(mode.is_polling());
        assert_eq!(
            run(&mut mode, &mut now, between, 0.5),
            0,
            "between, from above"
        );
        assert_eq!(run(&mut mode, &mut now, low, 0.5), 1, "low again");
        assert!(!mode.is_polling());
    }

    #[test]
    fn the_mode_changes_once_above_the_upper_and_once_below_the_lower_bound() {
        check(Thresholds::default(), 10_000, 350_000, 1_000_000);
        let rate = Thresholds::Rate {
            enter: 10_000,
            leave: 1_000,
            window: Nanos(10_000_000),
        };
        check(rate, 500, 5_000, 50_000);
    }

    #[test]
    fn an_idle_period_ends_polling() {
        let (mut now, mut mode) = (5, PollMode::new(Mode::Adaptive(Thresholds::default()), 5));
        run(&mut mode, &mut now, 1_000_000, 0.1);
        assert!(mode.is_polling());
        assert!(mode.after_poll(0, now + 15_000));
        assert!(!mode.after_poll(0, now + 60_000));
    }

    #[test]
    fn windows_count_as_the_wakeups_they_replace() {
        let polls = |frames: u64| {
            let mut mode = PollMode::new(Mode::Adaptive(Thresholds::default()), 0);
            (1..100).any(|at| mode.after_window(frames, 50_000, at * 50_000))
        };
        // The bound is 10 frames in 20 µs.
        assert!(!polls(22));
        assert!(polls(28));
    }

    #[test]
    fn fixed_modes_do_not_change() {
        for fixed in [Mode::GuestDriven, Mode::VmmDriven] {
            let (mut now, mut mode) = (5, PollMode::new(fixed, 5));
            assert_eq!(run(&mut mode, &mut now, 1_000_000, 0.1), 0);
            assert_eq!(run(&mut mode, &mut now, 1, 2.0), 0);
            assert_eq!(mode.is_polling(), fixed == Mode::VmmDriven);
        }
    }
}
