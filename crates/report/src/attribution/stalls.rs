//! Long work without an event: the device's own time, or a stall of its CPU that leaves no event.
//!
//! Before and after the window, threads that only read their clock watched every CPU for a moment. A stretch
//! of work longer than any silent stall that they saw is the device's own. A shorter one may be either. Of `n`
//! packets that were held up for `ns` or longer without an event, stalls explain
//!
//! ```text
//! expected(ns) = T / watched * sum over stalls s >= ns of min(1, rate * (s - ns + median))
//! ```
//!
//! where `T` is the time of the trial, `rate` its packets in a second, and `median` the usual work on one. The
//! last factor is the chance that a packet is in the device, or comes, early enough in the stall to see `ns`
//! of it. `expected / n` is the false discovery rate of "it was the device" for all lengths from `ns` on
//! (Efron 2007, "Size, power and false discovery rates").

use latlab_model::results::SilentStalls;

use super::cause::Cause;

/// A stretch of one packet's work, longer than usual and without an event.
#[derive(Debug, Clone, Default)]
pub struct Silent {
    /// Begin, end and the system call of each uninterrupted part, the longest first.
    pub parts: Vec<(u64, u64, Option<String>)>,
    /// The CPU of the longest part, if known.
    pub cpu: Option<u16>,
}

impl Silent {
    /// The longest uninterrupted part.
    pub fn longest_ns(&self) -> u64 {
        self.parts.first().map_or(0, |(from, to, _)| to - from)
    }
}

/// The trial's load, which decides how many stalls meet a packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// From the first packet to the last.
    pub trial_ns: u64,
    pub packets: u64,
    /// Median work on one packet.
    pub median_ns: u64,
}

/// Decides between the device and a stall.
pub struct Odds<'a> {
    stalls: &'a [SilentStalls],
    load: Load,
    /// Lengths of all silent stretches of the trial, in order.
    seen_ns: Vec<u64>,
}

impl<'a> Odds<'a> {
    pub fn new(
        stalls: &'a [SilentStalls],
        load: Load,
        seen: impl Iterator<Item = u64>,
    ) -> Odds<'a> {
        let mut seen_ns: Vec<u64> = seen.collect();
        seen_ns.sort_unstable();
        Odds {
            stalls,
            load,
            seen_ns,
        }
    }

    /// The cause of each part of a silent stretch.
    pub fn decide(&self, silent: &Silent) -> Vec<(u64, u64, Cause)> {
        let own = self.own(silent);
        let cause = |call: &Option<String>| match (own, call) {
            (None, _) => Cause::Unexplained,
            (Some(1.0), Some(call)) => Cause::SystemCall(call.clone()),
            (Some(1.0), None) => Cause::OwnCode,
            (Some(own), _) => Cause::OwnOrStall {
                own_percent: percent(own),
            },
        };
        let parts = silent.parts.iter();
        parts
            .map(|(from, to, call)| (*from, *to, cause(call)))
            .collect()
    }

    /// Probability that the device itself took this long; `None` if no thread watched its CPU.
    fn own(&self, silent: &Silent) -> Option<f64> {
        let of_cpu = self
            .stalls
            .iter()
            .find(|one| Some(one.cpu) == silent.cpu && one.watched_ns > 0)?;
        let ns = silent.longest_ns();
        let expected = self.expected(of_cpu, ns);
        let seen = self.seen_ns.len() - self.seen_ns.partition_point(|&length| length < ns);
        Some(1.0 - (expected / seen.max(1) as f64).min(1.0))
    }

    /// Number of packets of the trial that stalls of a CPU hold up for `ns` or longer.
    fn expected(&self, of_cpu: &SilentStalls, ns: u64) -> f64 {
        let trial_ns = self.load.trial_ns.max(1) as f64;
        let rate = self.load.packets as f64 / trial_ns;
        let meets = |&stall: &u64| {
            let early = (stall - ns).saturating_add(self.load.median_ns);
            (rate * early as f64).min(1.0)
        };
        let as_long = of_cpu.lengths_ns.iter().filter(|&&stall| stall >= ns);
        as_long.map(meets).sum::<f64>() * trial_ns / of_cpu.watched_ns as f64
    }
}

/// In tens, so that a table has few rows, but never certain.
fn percent(own: f64) -> u8 {
    ((own * 10.0).round() as u8 * 10).clamp(1, 99)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn silent(ns: u64) -> Silent {
        Silent {
            parts: vec![(1_000, 1_000 + ns, None)],
            cpu: Some(1),
        }
    }

    /// A second with 10 000 packets of 5 µs; watched for a tenth, in which these stalls were seen.
    fn decided(stalls: &[u64], seen: &[u64], ns: u64) -> Cause {
        let stalls = [SilentStalls {
            cpu: 1,
            watched_ns: 100 * MS,
            lengths_ns: stalls.to_vec(),
        }];
        let load = Load {
            trial_ns: 1_000 * MS,
            packets: 10_000,
            median_ns: 5_000,
        };
        let odds = Odds::new(&stalls, load, seen.iter().copied());
        odds.decide(&silent(ns)).remove(0).2
    }

    #[test]
    fn work_longer_than_any_stall_is_the_devices_own() {
        assert_eq!(decided(&[], &[30_000], 30_000), Cause::OwnCode);
        assert_eq!(decided(&[29_999], &[30_000], 30_000), Cause::OwnCode);
    }

    #[test]
    fn shorter_work_has_odds() {
        let cause = |own_percent| Cause::OwnOrStall { own_percent };
        // Ten stalls of 35 µs in the trial; a packet sees 30 µs of each with chance 0.1: one packet.
        assert_eq!(decided(&[35_000], &[30_000], 30_000), cause(1));
        assert_eq!(decided(&[35_000], &[30_000; 2], 30_000), cause(50));
        assert_eq!(decided(&[35_000], &[30_000; 5], 30_000), cause(80));
        assert_eq!(decided(&[35_000], &[30_000; 1000], 30_000), cause(99));
        let shorter = [20_000, 20_000, 30_000];
        assert_eq!(
            decided(&[35_000], &shorter, 30_000),
            cause(1),
            "shorter ones tell nothing"
        );
        // A long stall meets a packet for certain, once.
        assert_eq!(decided(&[MS], &[30_000; 20], 30_000), cause(50));
    }

    #[test]
    fn a_system_call_is_named_only_if_it_is_the_device() {
        let stalls = [SilentStalls {
            cpu: 1,
            watched_ns: MS,
            lengths_ns: vec![20_000],
        }];
        let call = |ns, cpu| Silent {
            parts: vec![(0, ns, Some("getrandom".into()))],
            cpu,
        };
        let odds = Odds::new(&stalls, Load::default(), [50_000].into_iter());
        let decided = odds.decide(&call(50_000, Some(1)));
        assert_eq!(
            decided,
            [(0, 50_000, Cause::SystemCall("getrandom".into()))]
        );
        let elsewhere = odds.decide(&call(50_000, Some(2)));
        assert_eq!(elsewhere[0].2, Cause::Unexplained, "not watched");
    }
}
