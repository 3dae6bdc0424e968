//! Sets aside the time that the hypervisor underneath stole from the CPUs of an exchange.
//!
//! The steal between two readings of a CPU's counter is known, its place is not. So an exchange is relieved
//! of the least overlap with it, wherever the steal lay. Of several CPUs that lost time at once, only the one
//! that lost most counts. The time set aside is therefore never more than was stolen during the exchange, and
//! mostly all of it, because the readings lie within the exchange.

use std::collections::BTreeMap;

use latlab_samples::table::Stretch;

#[derive(Debug, Clone, Default)]
pub struct Stolen(BTreeMap<u16, Vec<Stretch>>);

impl Stolen {
    #[must_use]
    pub fn new(stretches: &[Stretch]) -> Stolen {
        let mut all: BTreeMap<u16, Vec<Stretch>> = BTreeMap::new();
        for stretch in stretches {
            all.entry(stretch.cpu).or_default().push(*stretch);
        }
        for of_cpu in all.values_mut() {
            of_cpu.sort_by_key(|stretch| (stretch.until_ns, stretch.since_ns));
        }
        Stolen(all)
    }

    /// Least time stolen from one CPU between two times.
    #[must_use]
    pub fn within(&self, from_ns: i64, to_ns: i64) -> i64 {
        let of_cpu = |stretches: &Vec<Stretch>| -> i64 {
            let first = stretches.partition_point(|stretch| stretch.until_ns <= from_ns);
            let under_way = stretches[first..]
                .iter()
                .take_while(|stretch| stretch.since_ns < to_ns);
            under_way
                .map(|stretch| least_overlap(stretch, from_ns, to_ns))
                .fold(0, i64::saturating_add)
        };
        let most = self.0.values().map(of_cpu).max().unwrap_or(0);
        // A damaged table may hold stretches that overlap.
        most.min(to_ns.saturating_sub(from_ns)).max(0)
    }
}

/// The overlap is least with the steal at one end of the stretch.
fn least_overlap(stretch: &Stretch, from_ns: i64, to_ns: i64) -> i64 {
    let (since, until) = (stretch.since_ns, stretch.until_ns);
    let taken = stretch.stolen_ns.min(until.saturating_sub(since));
    let overlap = |begin: i64, end: i64| end.min(to_ns).saturating_sub(begin.max(from_ns)).max(0);
    overlap(since, since.saturating_add(taken)).min(overlap(until.saturating_sub(taken), until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(cpu: u16, since_ns: i64, until_ns: i64, stolen_ns: i64) -> Stretch {
        Stretch {
            cpu,
            since_ns,
            until_ns,
            stolen_ns,
        }
    }

    #[test]
    fn steal_within_an_exchange_is_set_aside_whole() {
        let stolen = Stolen::new(&[stretch(0, 110, 190, 70)]);
        assert_eq!(stolen.within(100, 200), 70);
        assert_eq!(stolen.within(0, 100), 0);
        assert_eq!(stolen.within(200, 300), 0);
    }

    #[test]
    fn steal_across_a_border_is_set_aside_only_where_certain() {
        // 70 somewhere in 80..180: at least 50 of them after 100, at least 50 before 160.
        let stolen = Stolen::new(&[stretch(0, 80, 180, 70)]);
        assert_eq!(stolen.within(100, 200), 50);
        assert_eq!(stolen.within(0, 160), 50);
        // 10 somewhere in 0..1000 need not lie in any exchange of 100.
        let stolen = Stolen::new(&[stretch(0, 0, 1000, 10)]);
        assert_eq!(stolen.within(450, 550), 0);
    }

    #[test]
    fn the_cpu_that_lost_most_counts() {
        let stolen = Stolen::new(&[
            stretch(0, 150, 160, 10),
            stretch(0, 110, 120, 5),
            stretch(1, 110, 180, 60),
        ]);
        assert_eq!(stolen.within(100, 200), 60);
        assert_eq!(stolen.within(100, 130), 10);
    }

    #[test]
    fn impossible_tables_set_aside_no_more_than_there_is() {
        let all = [stretch(0, 0, 10, i64::MAX), stretch(0, 0, 10, i64::MAX)];
        assert_eq!(Stolen::new(&all).within(0, 10), 10);
        let all = [stretch(0, i64::MIN, i64::MAX, i64::MAX)];
        assert!(Stolen::new(&all).within(0, 10) <= 10);
    }
}
