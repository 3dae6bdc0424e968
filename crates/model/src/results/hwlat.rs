//! Periodic interruptions of a CPU by something underneath the kernel, which leave no event.

use serde::{Deserialize, Serialize};

/// Nothing is said of times farther from where it was seen than this, in ns.
const REACH_NS: u64 = 200_000_000;

/// Hardware latency, as the kernel calls it (Documentation/trace/hwlat_detector.rst): a thread that only
/// reads its clock stands still and no kernel event says why. Here one that recurs, as a hypervisor's own
/// timer or a firmware's does; the hypervisor does not count it as time that it took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hwlat {
    /// The CPU that stands still.
    pub cpu: u16,
    pub period_ns: u64,
    /// Some of the times it began, in order, in ns of the machine's monotonic clock: one for each time that
    /// it was watched.
    pub begins_ns: Vec<u64>,
    pub longest_ns: u64,
}

/// Stalls of one CPU at irregular times, for which no event says why, as a thread saw them that only read its
/// clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentStalls {
    pub cpu: u16,
    /// Time for which it was watched, in ns.
    pub watched_ns: u64,
    /// The length of each in ns, the longest first.
    pub lengths_ns: Vec<u64>,
}

impl Hwlat {
    /// Maximum deviation from its period, in ns.
    pub const JITTER_NS: u64 = 3_000;

    /// The last begin until an instant; `None` too far from where it was seen. The two clocks may drift apart,
    /// so what lies between two times that were seen is laid between them evenly.
    #[must_use]
    pub fn last_begin(&self, at_ns: u64) -> Option<u64> {
        let next = self.begins_ns.partition_point(|&begin| begin <= at_ns);
        let period = self.period_ns.max(1);
        // A damaged record may have them in no order.
        let before = next.checked_sub(1).map(|last| self.begins_ns[last]);
        let before = before.filter(|&begin| begin <= at_ns);
        let behind = self.begins_ns.get(next).copied();
        match (before, behind.filter(|&begin| begin > at_ns)) {
            (Some(before), Some(behind)) => {
                let apart = behind - before;
                let steps = (apart.saturating_add(period / 2) / period).max(1);
                let number = u128::from(at_ns - before) * u128::from(steps) / u128::from(apart);
                let since = number * u128::from(apart) / u128::from(steps);
                Some(before + since as u64)
            }
            (Some(before), None) if at_ns - before <= REACH_NS => {
                Some(at_ns - (at_ns - before) % period)
            }
            (None, Some(behind)) if behind - at_ns <= REACH_NS => {
                behind.checked_sub((behind - at_ns).div_ceil(period) * period)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_are_laid_evenly() {
        let one = Hwlat {
            cpu: 0,
            period_ns: 10_000,
            // Ten steps; the clocks have drifted by 20 ns meanwhile.
            begins_ns: vec![1_000_000, 1_100_020],
            longest_ns: 40,
        };
        assert_eq!(one.last_begin(1_000_000), Some(1_000_000));
        assert_eq!(one.last_begin(1_050_015), Some(1_050_010));
        assert_eq!(one.last_begin(1_050_009), Some(1_040_008));
        assert_eq!(one.last_begin(1_100_020), Some(1_100_020));
        assert_eq!(one.last_begin(1_120_019), Some(1_110_020), "behind");
        assert_eq!(one.last_begin(980_001), Some(980_000), "before");
        assert_eq!(one.last_begin(979_999), Some(970_000));
        assert_eq!(one.last_begin(1_100_021 + REACH_NS), None, "too far");
        assert_eq!(Hwlat::default().last_begin(5), None, "never seen");
        let damaged = Hwlat {
            begins_ns: vec![u64::MAX, 3, 9, 0],
            ..Hwlat::default()
        };
        for at in [0, 3, 5, u64::MAX] {
            assert!(damaged.last_begin(at).is_none_or(|begin| begin <= at));
        }
    }
}
