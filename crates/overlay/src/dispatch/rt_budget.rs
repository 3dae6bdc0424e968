//! The real-time run-time budget of a dispatcher: it runs under SCHED_FIFO as long as it works briefly.
//!
//! A kick or a datagram brings some µs of work. On a shared CPU, a SCHED_OTHER dispatcher waits until the guest there
//! sleeps or its slice ends. The thread that its notification wakes also preempts it before it sleeps itself. The
//! kernel serves softirqs before any thread; under endless load it leaves them to `ksoftirqd`, a thread like others. A
//! dispatcher does the same: in the long run it has real-time priority for at most half of the time.
//!
//! Pure: times are arguments, in ns.

/// Maximum real-time run time without a rest, as for softirqs (2 ms).
const BUDGET_NS: u64 = 2_000_000;

/// A budget that run time drains and sleep refills.
#[derive(Debug, Clone)]
pub(super) struct RtBudget {
    left: u64,
    since: u64,
    is_realtime: bool,
}

impl RtBudget {
    pub const fn new(now: u64) -> RtBudget {
        RtBudget {
            left: BUDGET_NS,
            since: now,
            is_realtime: true,
        }
    }

    /// Charges the run time until `now`; returns whether the thread stays real-time.
    pub const fn charge(&mut self, now: u64) -> bool {
        self.left = self.left.saturating_sub(now.saturating_sub(self.since));
        self.since = now;
        self.is_realtime &= self.left > 0;
        self.is_realtime
    }

    /// Refills the budget by the sleep until `now`; returns whether the thread is real-time again.
    pub fn refill(&mut self, now: u64) -> bool {
        self.left = BUDGET_NS.min(self.left + now.saturating_sub(self.since));
        self.since = now;
        // Half of it, or the policy would change at every frame.
        self.is_realtime |= self.left >= BUDGET_NS / 2;
        self.is_realtime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_work_stays_realtime_and_endless_work_does_not() {
        let mut budget = RtBudget::new(0);
        let mut now = 0;
        for _ in 0..1000 {
            now += 20_000;
            assert!(budget.charge(now), "a fifth of the time");
            now += 80_000;
            assert!(budget.refill(now));
        }
        now += BUDGET_NS;
        assert!(!budget.charge(now));
        now += BUDGET_NS / 4;
        assert!(!budget.refill(now), "too short a rest");
        now += BUDGET_NS / 4;
        assert!(budget.refill(now));
    }

    #[test]
    fn realtime_share_is_capped_at_half() {
        let (mut budget, mut now, mut realtime) = (RtBudget::new(0), 0, 0);
        while now < 1000 * BUDGET_NS {
            let was = budget.is_realtime;
            now += 30_000;
            budget.charge(now);
            realtime += if was { 30_000 } else { 0 };
            now += 10_000;
            budget.refill(now);
        }
        assert!(realtime > 0 && realtime <= now / 2, "{realtime} of {now}");
    }
}
