//! When each packet shall be sent, decided before the first one is.

use latlab_wire::samples::{Arrival, Record, SourceCounters, Via, flags};

use crate::args::Options;
use crate::error::{Error, Result};

const NS_PER_S: u128 = 1_000_000_000;
/// Flows of one source at most: each has a socket of its own.
const MAX_FLOWS: u64 = 512;
/// Packets of one burst at most.
const MAX_BURST: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub rate_pps: u64,
    pub arrival: Arrival,
    /// Packets that share each time; the mean rate stays as it is.
    pub burst: u64,
    pub seed: u64,
    /// The first flow, and how many take turns.
    pub flow: u16,
    pub flows: u16,
    pub warm_up_ns: u64,
    /// Number of packets after the warm-up, if that ends the schedule.
    pub count: Option<u64>,
    /// Time after the warm-up, if that ends the schedule.
    pub duration_ns: Option<u64>,
}

impl Plan {
    /// Takes a schedule's options. Errors: none that ends it.
    pub fn take(options: &mut Options) -> Result<Plan> {
        let plan = Plan {
            rate_pps: options
                .number("rate", 1, 100_000_000)?
                .ok_or_else(|| Error::Usage("--rate is missing: packets a second".into()))?,
            arrival: options
                .choice(
                    "arrival",
                    &[
                        ("constant", Arrival::Constant),
                        ("poisson", Arrival::Poisson),
                    ],
                )?
                .unwrap_or(Arrival::Constant),
            seed: options.number("seed", 0, u64::MAX)?.unwrap_or(1),
            burst: options.number("burst", 1, MAX_BURST)?.unwrap_or(1),
            flow: options.number("flow", 0, u64::from(u16::MAX))?.unwrap_or(0) as u16,
            flows: options.number("flows", 1, MAX_FLOWS)?.unwrap_or(1) as u16,
            warm_up_ns: options
                .millis_as_ns("warmup-ms", 0, 3_600_000)?
                .unwrap_or(0),
            count: options.number("count", 1, u64::from(u32::MAX))?,
            duration_ns: options.millis_as_ns("duration-ms", 1, 24 * 3_600_000)?,
        };
        if plan.count.is_none() && plan.duration_ns.is_none() {
            return Err(Error::Usage("give --count, --duration-ms, or both".into()));
        }
        if plan.flow.checked_add(plan.flows - 1).is_none() {
            let last = u32::from(plan.flow) + u32::from(plan.flows) - 1;
            return Err(Error::Usage(format!(
                "--flow {} --flows {}: the last flow would be {last}, and they have 16 bits",
                plan.flow, plan.flows
            )));
        }
        Ok(plan)
    }

    /// Refuses more packets than there are sequence numbers.
    pub fn check(&self) -> Result<()> {
        let most_packets = self.most_packets();
        match u32::try_from(most_packets) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Usage(format!(
                "{most_packets} packets: the sequence has 32 bits"
            ))),
        }
    }

    /// More packets than the schedule will have, but not many more: what memory to ask for.
    pub fn most_packets(&self) -> u64 {
        let in_time = |ns: u64| {
            let mean = u128::from(ns) * u128::from(self.rate_pps) / NS_PER_S + 1;
            let spread = match self.arrival {
                Arrival::Constant => u128::from(self.burst) - 1,
                // Ten standard deviations of a Poisson count of bursts; `packets` holds even beyond.
                Arrival::Poisson => {
                    let burst = u128::from(self.burst);
                    10 * burst * ((mean / burst).isqrt() + 10)
                }
            };
            u64::try_from(mean + spread).unwrap_or(u64::MAX)
        };
        let by_time = self.duration_ns.map_or(u64::MAX, in_time);
        let warm_up = if self.warm_up_ns == 0 {
            0
        } else {
            in_time(self.warm_up_ns)
        };
        warm_up.saturating_add(by_time.min(self.count.unwrap_or(u64::MAX)))
    }

    /// The counters of a source that has sent `records`, without those of its own way to send.
    pub fn counters(&self, records: &[Record], via: Via, frame_bytes: u64) -> SourceCounters {
        let count = |bit| records.iter().filter(|record| record.has(bit)).count() as u64;
        let planned = records.len() as u64;
        let not_sent = count(flags::NOT_SENT);
        SourceCounters {
            planned,
            warm_up: count(flags::WARM_UP),
            sent: planned - not_sent,
            not_sent,
            network_errors: 0,
            frame_bytes: frame_bytes as u32,
            payload_bytes: 0,
            rate_pps: self.rate_pps,
            arrival: self.arrival,
            seed: self.seed,
            flow: self.flow,
            flows: self.flows,
            burst: self.burst as u32,
            via,
            card_clock: None,
            stamps_missing: 0,
        }
    }

    /// Fills `records` with one record per packet: number, flow, warm-up flag, and as `start_ns`
    /// the intended time after the begin of the schedule. Never goes beyond its capacity.
    pub fn fill(&self, records: &mut Vec<Record>) {
        let mut chance = SplitMix64(self.seed);
        let mean_gap_ns = self.burst as f64 * NS_PER_S as f64 / self.rate_pps as f64;
        let mut poisson_ns = 0.0;
        let mut counted = 0;
        for number in 0..records.capacity() as u64 {
            let first_of_burst = number % self.burst == 0;
            let at_ns = match self.arrival {
                // From the number and not by adding gaps, so that rounding does not add up.
                Arrival::Constant => {
                    let first = u128::from(number - number % self.burst);
                    (first * NS_PER_S / u128::from(self.rate_pps)) as u64
                }
                Arrival::Poisson => {
                    if first_of_burst {
                        poisson_ns += chance.exponential() * mean_gap_ns;
                    }
                    poisson_ns as u64
                }
            };
            let warm_up = at_ns < self.warm_up_ns;
            let over = !warm_up
                && (self.count == Some(counted)
                    || self
                        .duration_ns
                        .is_some_and(|ns| at_ns >= self.warm_up_ns + ns));
            if over {
                return;
            }
            counted += u64::from(!warm_up);
            records.push(Record {
                sequence: number as u32,
                flow: self.flow + (number % u64::from(self.flows)) as u16,
                flags: if warm_up { flags::WARM_UP } else { 0 },
                start_ns: at_ns,
                end_ns: 0,
            });
        }
    }
}

/// Sebastiano Vigna's SplitMix64: a full-period generator in four lines, equal on every machine for
/// equal seeds, which is all a schedule needs.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponentially distributed with mean 1.
    fn exponential(&mut self) -> f64 {
        // 53 random bits give a number in (0, 1]: its logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        rate_pps: 3,
        arrival: Arrival::Constant,
        burst: 1,
        seed: 1,
        flow: 9,
        flows: 1,
        warm_up_ns: 0,
        count: Some(7),
        duration_ns: None,
    };

    fn filled(plan: Plan) -> Vec<Record> {
        let mut records = Vec::with_capacity(plan.most_packets() as usize);
        plan.fill(&mut records);
        records
    }

    #[test]
    fn a_constant_schedule_does_not_drift() {
        let records = filled(PLAN);
        let times: Vec<u64> = records.iter().map(|record| record.start_ns).collect();
        assert_eq!(
            times,
            [
                0,
                333_333_333,
                666_666_666,
                1_000_000_000,
                1_333_333_333,
                1_666_666_666,
                2_000_000_000
            ],
        );
        assert!(
            records
                .iter()
                .enumerate()
                .all(|(i, r)| r.sequence == i as u32 && r.flow == 9)
        );
    }

    #[test]
    fn a_burst_shares_its_time_and_keeps_the_mean_rate() {
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            let plan = Plan {
                rate_pps: 1_000_000,
                arrival,
                burst: 4,
                flows: 3,
                count: Some(40_000),
                ..PLAN
            };
            let records = filled(plan);
            assert_eq!(records.len(), 40_000);
            assert!(
                records
                    .chunks(4)
                    .all(|b| b.iter().all(|r| r.start_ns == b[0].start_ns))
            );
            assert!(records[3].start_ns < records[4].start_ns);
            let flows: Vec<u16> = records[..4].iter().map(|r| r.flow).collect();
            assert_eq!(flows, [9, 10, 11, 9]);
            // 10,000 bursts: four standard errors of their mean gap.
            let last = records[39_999].start_ns as f64;
            assert!((last / 40_000_000.0 - 1.0).abs() < 0.04, "{last}");
        }
    }

    #[test]
    fn the_earlier_of_count_and_time_ends_it() {
        let one_second = Some(1_000_000_000);
        assert_eq!(
            filled(Plan {
                duration_ns: one_second,
                ..PLAN
            })
            .len(),
            3
        );
        assert_eq!(
            filled(Plan {
                duration_ns: one_second,
                count: Some(2),
                ..PLAN
            })
            .len(),
            2
        );
        assert_eq!(
            filled(Plan {
                duration_ns: one_second,
                count: None,
                ..PLAN
            })
            .len(),
            3
        );
    }

    #[test]
    fn the_warm_up_comes_on_top() {
        for (count, duration_ns) in [(Some(6), None), (None, Some(2_000_000_000))] {
            let records = filled(Plan {
                warm_up_ns: 1_000_000_000,
                count,
                duration_ns,
                ..PLAN
            });
            let warm_up: Vec<bool> = records.iter().map(|r| r.has(flags::WARM_UP)).collect();
            assert_eq!(
                warm_up,
                [true, true, true, false, false, false, false, false, false]
            );
        }
    }

    #[test]
    fn poisson_gaps_have_the_right_mean_and_spread_and_follow_the_seed() {
        let plan = Plan {
            rate_pps: 1_000,
            arrival: Arrival::Poisson,
            count: Some(100_000),
            ..PLAN
        };
        let records = filled(plan);
        assert_eq!(records.len(), 100_000);
        let gaps: Vec<f64> = records
            .windows(2)
            .map(|w| (w[1].start_ns - w[0].start_ns) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Four standard errors of either, which this seed meets.
        assert!((mean - 1.0).abs() < 0.013, "mean gap {mean}");
        assert!((variance - 1.0).abs() < 0.04, "variance {variance}");
        assert_eq!(filled(plan), records);
        assert_ne!(filled(Plan { seed: 2, ..plan }), records);
    }

    #[test]
    fn memory_for_a_schedule_is_enough() {
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            for rate_pps in [1, 7, 1_000, 999_999] {
                let plan = Plan {
                    rate_pps,
                    arrival,
                    count: None,
                    duration_ns: Some(123_456_789),
                    warm_up_ns: 1_000_001,
                    ..PLAN
                };
                let records = filled(plan);
                assert!((records.len() as u64) <= plan.most_packets());
                // Had the room been too small, the schedule would end early.
                let last_gap = 124_456_790 - records.last().map_or(0, |r| r.start_ns);
                assert!(
                    last_gap <= 40 * 1_000_000_000 / rate_pps,
                    "{arrival:?} {rate_pps}"
                );
            }
        }
    }
}
