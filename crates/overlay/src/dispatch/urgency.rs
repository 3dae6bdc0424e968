//! Whether a dispatcher goes before the other threads of its processor: while it works briefly.
//!
//! A kick or a datagram brings some microseconds of work. On a processor that it shares, a dispatcher
//! that is a thread like others waits until the guest there goes to sleep or has had its slice, with a
//! frame that somebody else waits for; and it is put off by the very thread that its notification wakes,
//! before it has gone to sleep itself. So it is a real-time thread, as the kernel serves its own soft
//! interrupts before any thread, and like them (`ksoftirqd`) it becomes one of many when there is no end
//! to the work: in the long run it goes before others for at most half of the time.
//!
//! Pure: it is told the time, in nanoseconds.

/// For how long a dispatcher may go before others without a rest, as soft interrupts may (2 ms).
const MOST: u64 = 2_000_000;

/// The account of one dispatcher: what it works is taken from it, what it sleeps is put back.
#[derive(Debug, Clone)]
pub(super) struct Urgency {
    left: u64,
    since: u64,
    is_urgent: bool,
}

impl Urgency {
    /// A dispatcher that begins now, urgent.
    pub const fn new(now: u64) -> Urgency {
        Urgency {
            left: MOST,
            since: now,
            is_urgent: true,
        }
    }

    /// It has worked until now; whether it still is urgent.
    pub const fn worked(&mut self, now: u64) -> bool {
        self.left = self.left.saturating_sub(now.saturating_sub(self.since));
        self.since = now;
        self.is_urgent &= self.left > 0;
        self.is_urgent
    }

    /// It has slept until now; whether it is urgent again.
    pub fn slept(&mut self, now: u64) -> bool {
        self.left = MOST.min(self.left + now.saturating_sub(self.since));
        self.since = now;
        // Half of it, or it would change to and fro at every frame.
        self.is_urgent |= self.left >= MOST / 2;
        self.is_urgent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_work_stays_urgent_and_endless_work_does_not() {
        let mut urgency = Urgency::new(0);
        let mut now = 0;
        for _ in 0..1000 {
            now += 20_000;
            assert!(urgency.worked(now), "a fifth of the time");
            now += 80_000;
            assert!(urgency.slept(now));
        }
        now += MOST;
        assert!(!urgency.worked(now));
        now += MOST / 4;
        assert!(!urgency.slept(now), "a short rest is none");
        now += MOST / 4;
        assert!(urgency.slept(now));
    }

    #[test]
    fn who_hardly_sleeps_is_urgent_for_half_of_the_time_at_most() {
        let (mut urgency, mut now, mut urgent) = (Urgency::new(0), 0, 0);
        while now < 1000 * MOST {
            let was = urgency.is_urgent;
            now += 30_000;
            urgency.worked(now);
            urgent += if was { 30_000 } else { 0 };
            now += 10_000;
            urgency.slept(now);
        }
        assert!(urgent > 0 && urgent <= now / 2, "{urgent} of {now}");
    }
}
