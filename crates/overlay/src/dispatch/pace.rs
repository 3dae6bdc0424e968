//! When a port is looked at: the change between guest-driven and VMM-driven dispatch, with
//! hysteresis (Cui 2013, 5.1.2, figure 5.5).
//!
//! Pure: it is told what happened and when, in nanoseconds, and says what to do.

use latlab_model::overlay::{Mode, Thresholds};

/// About how long a wake-up takes. What arrives meanwhile is what the wake-up would have brought, so
/// that frames per wake-up mean the same while nobody sleeps.
const WAKEUP: u64 = 20_000;

/// The pace of one port.
#[derive(Debug, Clone)]
pub struct Pace {
    mode: Mode,
    is_polling: bool,
    /// Frames per wake-up, averaged, in sixteenths.
    average: u64,
    /// When the stretch that is being counted began, and what came in it.
    since: u64,
    frames: u64,
    /// When a frame last came.
    last: u64,
}

impl Pace {
    /// A pace that begins now.
    #[must_use]
    pub fn new(mode: Mode, now: u64) -> Pace {
        Pace {
            mode,
            is_polling: mode == Mode::VmmDriven,
            average: 0,
            since: now,
            frames: 0,
            last: now,
        }
    }

    /// Whether the port is to be looked at all the time.
    #[must_use]
    pub const fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Its guest woke us and that brought so many frames. True if the port is polled from now on.
    pub fn woke(&mut self, frames: u64, now: u64) -> bool {
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

    /// So many frames were gathered within so many nanoseconds. True if the port is polled from now on.
    pub fn gathered(&mut self, frames: u64, within: u64, now: u64) -> bool {
        let as_woken = match self.mode {
            Mode::Adaptive(Thresholds::Wakeups { .. }) => frames * WAKEUP / within.max(WAKEUP),
            _ => frames,
        };
        self.woke(as_woken, now)
    }

    /// Whether it may be decided here when the port is looked at.
    #[must_use]
    pub const fn is_adaptive(&self) -> bool {
        matches!(self.mode, Mode::Adaptive(_))
    }

    /// A look brought so many frames, perhaps none. False if the port is not polled any more.
    pub fn polled(&mut self, frames: u64, now: u64) -> bool {
        self.frames += frames;
        if frames > 0 {
            self.last = now;
        }
        match self.mode {
            Mode::Adaptive(Thresholds::Wakeups { leave, idle, .. }) => {
                if now.saturating_sub(self.since) >= WAKEUP {
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

    /// Frames per second of a window that has passed; the next one begins then.
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

    /// Lets frames come evenly, so many a second, for so long; looks every microsecond while
    /// polling, and 20 us after the first frame otherwise. Returns the changes.
    fn run(pace: &mut Pace, now: &mut u64, per_second: u64, seconds: f64) -> u32 {
        let (start, end) = (*now, *now + (seconds * 1e9) as u64);
        let arrived =
            |at: u64| (u128::from(at - start) * u128::from(per_second) / 1_000_000_000) as u64;
        let (mut taken, mut changes) = (0, 0);
        while *now < end {
            let was = pace.is_polling();
            *now += if was { 1_000 } else { 20_000 };
            let frames = arrived(*now) - taken;
            taken += frames;
            match was {
                true => pace.polled(frames, *now),
                false if frames > 0 => pace.woke(frames, *now),
                false => was,
            };
            changes += u32::from(was != pace.is_polling());
        }
        changes
    }

    fn check(thresholds: Thresholds, low: u64, between: u64, high: u64) {
        let (mut now, mut pace) = (5, Pace::new(Mode::Adaptive(thresholds), 5));
        assert_eq!(run(&mut pace, &mut now, low, 0.5), 0, "low");
        assert!(!pace.is_polling());
        assert_eq!(
            run(&mut pace, &mut now, between, 0.5),
            0,
            "between, from below"
        );
        assert_eq!(run(&mut pace, &mut now, high, 0.5), 1, "high");
        assert!(pace.is_polling());
        assert_eq!(
            run(&mut pace, &mut now, between, 0.5),
            0,
            "between, from above"
        );
        assert_eq!(run(&mut pace, &mut now, low, 0.5), 1, "low again");
        assert!(!pace.is_polling());
    }

    #[test]
    fn it_changes_once_above_the_upper_and_once_below_the_lower_bound() {
        check(Thresholds::default(), 10_000, 350_000, 1_000_000);
        let rate = Thresholds::Rate {
            enter: 10_000,
            leave: 1_000,
            window: Nanos(10_000_000),
        };
        check(rate, 500, 5_000, 50_000);
    }

    #[test]
    fn nothing_for_a_while_ends_polling() {
        let (mut now, mut pace) = (5, Pace::new(Mode::Adaptive(Thresholds::default()), 5));
        run(&mut pace, &mut now, 1_000_000, 0.1);
        assert!(pace.is_polling());
        assert!(pace.polled(0, now + 15_000));
        assert!(!pace.polled(0, now + 60_000));
    }

    #[test]
    fn what_was_gathered_counts_as_what_wake_ups_would_have_brought() {
        let settled = |frames: u64| {
            let mut pace = Pace::new(Mode::Adaptive(Thresholds::default()), 0);
            (1..100).any(|at| pace.gathered(frames, 50_000, at * 50_000))
        };
        // The bound is ten frames in twenty microseconds.
        assert!(!settled(22));
        assert!(settled(28));
    }

    #[test]
    fn what_is_set_does_not_change() {
        for mode in [Mode::GuestDriven, Mode::VmmDriven] {
            let (mut now, mut pace) = (5, Pace::new(mode, 5));
            assert_eq!(run(&mut pace, &mut now, 1_000_000, 0.1), 0);
            assert_eq!(run(&mut pace, &mut now, 1, 2.0), 0);
            assert_eq!(pace.is_polling(), mode == Mode::VmmDriven);
        }
    }
}
