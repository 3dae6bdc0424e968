//! The clock, and waiting for a point on it.
//!
//! One clock everywhere: `CLOCK_MONOTONIC`, because it is the one that BPF programs on the host
//! read (`bpf_ktime_get_ns`), it never steps, and processes and containers share it. A virtual
//! machine's guest has another one; times that cross that border must be mapped.

use std::hint;
use std::num::NonZeroU64;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::error::{Error, Result};

const NS_PER_S: u64 = 1_000_000_000;

/// Now, in ns of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// The resolution of `CLOCK_MONOTONIC` that the kernel claims, in ns.
pub fn claimed_resolution_ns() -> u64 {
    to_ns(clock_getres(ClockId::Monotonic))
}

/// `CLOCK_REALTIME − CLOCK_MONOTONIC` in ns: the narrowest of a few readings of one between two of
/// the other, which is right to half of what such a triple takes, well below 1 µs.
pub fn realtime_offset_ns() -> i64 {
    let reading = || {
        let before = now_ns();
        let real = to_ns(clock_gettime(ClockId::Realtime));
        let after = now_ns();
        (
            after - before,
            real as i64 - (before + (after - before) / 2) as i64,
        )
    };
    let readings = (0..33).map(|_| reading());
    let narrowest = readings.min_by_key(|(took, _)| *took);
    narrowest.map_or(0, |(_, offset)| offset)
}

/// Makes the kernel wake this thread when asked and not up to 50 µs later, which it otherwise may
/// in order to bundle timers.
pub fn ask_for_exact_timers() -> Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
        .map_err(|error| Error::machine("set the timer slack to 1 ns", error))
}

/// Waits for a point in time: sleeps until shortly before, then spins.
///
/// Sleeping alone wakes up late and by an amount that depends on the machine's idle states;
/// spinning alone burns a CPU and, where CPUs are few, gets the spinner preempted when it matters.
/// The margin is the compromise: larger than a usual wake-up, so that spinning absorbs it.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    spin_ns: u64,
}

impl Pause {
    /// Spins for the last `spin_ns` of each wait.
    pub const fn spinning(spin_ns: u64) -> Pause {
        Pause { spin_ns }
    }

    /// Returns at `at_ns`, or at once when that has passed. Gives the time it returned.
    pub fn until(&self, at_ns: u64) -> u64 {
        let mut now = now_ns();
        while now + self.spin_ns < at_ns {
            // A signal may end the sleep early, in which case the loop sleeps again.
            let wake_up = from_ns(at_ns - self.spin_ns);
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &wake_up);
            now = now_ns();
        }
        while now < at_ns {
            hint::spin_loop();
            now = now_ns();
        }
        now
    }
}

/// A time or duration in the kernel's form.
pub fn from_ns(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / NS_PER_S) as i64,
        tv_nsec: (ns % NS_PER_S) as _,
    }
}

fn to_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

pub struct OffsetLine {
    pub started_ns: u64,
    pub ended_ns: u64,
    pub offset_start_ns: i64,
    pub offset_end_ns: i64,
}

impl OffsetLine {
    /// Maps `CLOCK_REALTIME` to `CLOCK_MONOTONIC`.
    pub fn monotonic_ns(&self, realtime_ns: u64) -> u64 {
        let roughly_ns = i128::from(realtime_ns) - i128::from(self.offset_start_ns);
        let length_ns = i128::from(self.ended_ns.saturating_sub(self.started_ns)).max(1);
        let passed_ns = (roughly_ns - i128::from(self.started_ns)).clamp(0, length_ns);
        let drift_ns = i128::from(self.offset_end_ns) - i128::from(self.offset_start_ns);
        (roughly_ns - drift_ns * passed_ns / length_ns).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_never_ends_early() {
        for spin_ns in [0, 50_000, u64::from(u32::MAX)] {
            let target = now_ns() + 200_000;
            assert!(Pause::spinning(spin_ns).until(target) >= target);
            assert!(now_ns() >= target);
        }
    }

    #[test]
    fn a_pause_until_the_past_does_not_sleep() {
        // An absolute sleep until a wrapped-around time would never end.
        Pause::spinning(60_000).until(0);
        Pause::spinning(60_000).until(10);
    }

    #[test]
    fn times_survive_the_kernels_form() {
        for ns in [0, 1, NS_PER_S - 1, NS_PER_S, 123 * NS_PER_S + 456] {
            assert_eq!(to_ns(from_ns(ns)), ns);
        }
    }

    #[test]
    fn the_offset_maps_one_clock_onto_the_other() {
        let offset = realtime_offset_ns();
        let real = to_ns(clock_gettime(ClockId::Realtime)) as i64;
        // Not a timing: a wrong sign or unit would be off by decades.
        assert!((real - offset - now_ns() as i64).abs() < 60 * NS_PER_S as i64);
    }
}
