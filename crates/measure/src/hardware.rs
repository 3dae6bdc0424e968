//! Packets one way by the timestamps of the cards at both ends: without the kernels and programs, which `packets` includes.
//!
//! Each card has a clock of its own (PHC), on no time that the other knows. The two are compared by packets in both
//! directions, before and after the measurement:
//!
//! ```text
//! forward  = delay there + (receiver's clock − sender's)         of the fastest packet
//! backward = delay back  − (receiver's clock − sender's)         of the fastest packet
//! ```
//!
//! No delay is negative, so the difference lies between −backward and +forward: half of their sum bounds the error of
//! their middle, whatever the two delays are. That needs neither a daemon of PTP nor the machines' own clocks, and holds
//! between hosts as well. A clock that both cards share needs no comparison.
//!
//! The directions follow each other, and some 10 µs of drift can lie between them, where a cable takes one. The middle is the
//! difference at the moment in the middle of both packets, so it needs no correction. The sum has the drift within it, which
//! follows from the middles before and after the measurement. It is taken as steady from one to the other.

use std::collections::HashMap;

use latlab_model::results::{ClockMap, Counters};
use latlab_samples::Sample;
use latlab_wire::samples::{self, Record, SampleKind, flags};

use crate::checks;
use crate::clock::{self, Offset};
use crate::context::Context;
use crate::endpoint::{Endpoint, Output, strings};
use crate::error::Error;
use crate::measured::Measured;
use crate::memory;
use crate::nodes::Nodes;
use crate::pin::{self, Pins};
use crate::probes::{self, HANDOVER_TIMEOUT, Load};

/// Packets of each direction of a comparison: apart enough for cards that stamp one at a time.
const COMPARISON: Load<'static> = Load {
    to: "",
    via: latlab_model::spec::Via::Packet,
    rate: 500,
    duration_ms: 200,
    warmup_ms: 0,
};

/// Clocks differ by 200 parts in a million at most, and daemons of PTP slew them by a few more: a larger drift is a step.
const MAX_DRIFT: f64 = 1e-3;
const WAS_SET: &str = "its clock was set meanwhile; let no other program set it";

/// An end of the link, whose card stamps.
#[derive(Debug, Clone)]
struct End {
    node: String,
    interface: String,
    mac: String,
    cpu: Option<u32>,
}

/// Packets in one direction.
struct Transfer {
    sent: Output,
    received: Output,
}

/// The packet with the least time from card to card, each by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fastest {
    time_ns: i64,
    sent_ns: i64,
}

/// The fastest packets of both directions.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    there: Fastest,
    back: Fastest,
}

/// Measures once. Fails when an endpoint fails, the clocks cannot be compared, or cards stamp nothing.
pub fn measure<N: Nodes>(context: &Context<'_, N>) -> Result<Measured, Error> {
    let [sender, receiver] = ends(context)?;
    let load = Load::of(context, "");
    // Both ends have two records of each.
    memory::require_records(load.max_packets(context), 4)?;
    let before = compare(context, &sender, &receiver)?;
    let transfer = Transfer::run(context, &sender, &receiver, &load)?;
    let after = match before {
        Some(_) => compare(context, &sender, &receiver)?,
        None => None,
    };
    let start = transfer.fastest(&sender, &receiver)?.sent_ns;
    let map = match before.zip(after) {
        Some((before, after)) => {
            let both = offsets(before, after).filter(|(before, after)| is_steady(*before, *after));
            let (before, after) = both.ok_or_else(|| receiver.failed(WAS_SET))?;
            Some(clock::map(before, after, start))
        }
        None => None,
    };
    let mut measured = join(&transfer, start, map.as_ref());
    measured.clock = map;
    measured.add_endpoint("sender", &sender.node, &transfer.sent);
    measured.add_endpoint("receiver", &receiver.node, &transfer.received);
    Ok(measured)
}

impl End {
    fn failed(&self, reason: &str) -> Error {
        Error::Card {
            node: self.node.clone(),
            interface: self.interface.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// Both ends, in the direction of the measurement.
fn ends<N: Nodes>(context: &Context<'_, N>) -> Result<[End; 2], Error> {
    let plan = context.lab.plan();
    let pins = Pins::of(context);
    let both = [
        (context.sender(), pins.sender),
        (context.receiver(), pins.receiver),
    ];
    let found = both.map(|(name, cpu)| {
        let mut ends = plan.links[context.reach.link].endpoints.iter();
        let end = ends.find(|end| plan.nodes[end.node].name == name)?;
        let interface = &plan.nodes[end.node].interfaces[end.interface];
        Some(End {
            node: name.to_owned(),
            interface: interface.name.clone(),
            mac: interface.mac.to_string(),
            cpu,
        })
    });
    match found {
        [Some(sender), Some(receiver)] => Ok([sender, receiver]),
        _ => Err(Error::unreachable(context.sender(), context.receiver())),
    }
}

/// Compares the clocks of both cards; `None` when they are one.
fn compare<N: Nodes>(
    context: &Context<'_, N>,
    sender: &End,
    receiver: &End,
) -> Result<Option<Comparison>, Error> {
    let forward = Transfer::run(context, sender, receiver, &COMPARISON)?;
    let machine = |end: &End| context.lab.machine(&end.node).0;
    if machine(sender) == machine(receiver) && forward.has_one_clock() {
        return Ok(None);
    }
    let backward = Transfer::run(context, receiver, sender, &COMPARISON)?;
    Ok(Some(Comparison {
        there: forward.fastest(sender, receiver)?,
        back: backward.fastest(receiver, sender)?,
    }))
}

impl Comparison {
    /// The middle of both packets, on the sender's clock.
    fn at_ns(&self) -> i64 {
        self.there.sent_ns + self.between_ns() / 2
    }

    /// The time from the packet there to the packet back, on the sender's clock.
    fn between_ns(&self) -> i64 {
        self.back.sent_ns + self.back.time_ns - self.there.sent_ns
    }

    /// The difference at the middle.
    fn offset_ns(&self) -> i64 {
        (self.back.time_ns - self.there.time_ns) / 2
    }

    /// With the receiver's `gain` on the sender's clock, as a share of the time. None: a delay would be negative.
    fn offset(&self, gain: f64) -> Option<Offset> {
        let gained = (gain * self.between_ns() as f64).round() as i64;
        let delays = self.there.time_ns + self.back.time_ns + gained;
        Some(Offset {
            offset_ns: self.offset_ns(),
            error_ns: u64::try_from(delays / 2).ok()?,
            at_ns: self.at_ns(),
        })
    }
}

/// Two comparisons, with the drift from one to the other. The fastest packets' delays are the same in both, so what their
/// difference adds to an offset is not in the drift. None: the clocks were set.
fn offsets(before: Comparison, after: Comparison) -> Option<(Offset, Offset)> {
    let span = after.at_ns() - before.at_ns();
    if span <= 0 {
        return None;
    }
    let gain = (before.offset_ns() - after.offset_ns()) as f64 / span as f64;
    Some((before.offset(gain)?, after.offset(gain)?))
}

/// Whether the difference of two clocks has changed by no more than their drift.
fn is_steady(before: Offset, after: Offset) -> bool {
    let change = (after.offset_ns - before.offset_ns).unsigned_abs() as f64;
    let drift = (after.at_ns - before.at_ns).max(0) as f64 * MAX_DRIFT;
    change <= drift + (before.error_ns + after.error_ns) as f64
}

impl Transfer {
    fn run<N: Nodes>(
        context: &Context<'_, N>,
        from: &End,
        to: &End,
        load: &Load<'_>,
    ) -> Result<Transfer, Error> {
        let packets = load.max_packets(context);
        let mut args = strings(&["ptp-sink", "--interface", &to.interface]);
        args.extend(strings(&["--max-packets", &packets.to_string()]));
        args.extend(probes::room(2 * packets));
        args.extend(pin::argument(to.cpu));
        // Each has two records.
        let mut sink = Endpoint::start_with_limit(context.lab, &to.node, &args, 2 * packets)?;
        sink.ready()?;
        let mut args = strings(&["ptp-source", "--interface", &from.interface]);
        args.extend(strings(&["--to", &to.mac]));
        args.extend(load.arguments(context));
        args.extend(pin::argument(from.cpu));
        let source = probes::sender(context.lab, &from.node, &args, 2 * packets, load.total_ms())?;
        let sent = source.finish()?;
        probes::await_stragglers(context);
        let received = sink.stop(HANDOVER_TIMEOUT)?;
        Ok(Transfer { sent, received })
    }

    fn has_one_clock(&self) -> bool {
        let clock = |output: &Output| match output.report.as_ref().map(|report| &report.counters) {
            Some(samples::Counters::Source(source)) => source.card_clock,
            Some(samples::Counters::Sink(sink)) => sink.card_clock,
            _ => None,
        };
        clock(&self.sent).is_some() && clock(&self.sent) == clock(&self.received)
    }

    /// Fails without a packet that both cards stamped.
    fn fastest(&self, from: &End, to: &End) -> Result<Fastest, Error> {
        let sent = stamps(&self.sent);
        let received = self.received.of(SampleKind::Card);
        let times = received.filter_map(|record| {
            let sent_ns = *sent.get(&record.sequence)?;
            Some(Fastest {
                time_ns: record.end_ns as i64 - sent_ns,
                sent_ns,
            })
        });
        let has = |kind| self.received.of(kind).next().is_some();
        times.min().ok_or_else(|| match () {
            () if sent.is_empty() => {
                from.failed("its card stamped none of the packets that it sent")
            }
            () if !has(SampleKind::Sink) => to.failed("none of the packets arrived"),
            () if !has(SampleKind::Card) => {
                to.failed("its card stamped none of the packets that it received")
            }
            () => to.failed("no packet was stamped by both cards; lower the rate"),
        })
    }
}

/// The stamps of a card by sequence number. The first of a packet that came twice counts.
fn stamps(output: &Output) -> HashMap<u32, i64> {
    let mut all = HashMap::new();
    for record in output.of(SampleKind::Card) {
        all.entry(record.sequence).or_insert(record.end_ns as i64);
    }
    all
}

/// Matches received packets with sent ones by sequence number. Latencies are from card to card. Packets that arrived without
/// the stamps of both cards have no sample, and are counted.
fn join(transfer: &Transfer, start: i64, map: Option<&ClockMap>) -> Measured {
    let (left, came) = (stamps(&transfer.sent), stamps(&transfer.received));
    let mut counters = Counters::default();
    let mut arrivals: HashMap<u32, u64> = HashMap::new();
    for record in transfer.received.of(SampleKind::Sink) {
        if record.has(flags::DUPLICATE) {
            counters.duplicated += 1;
            continue;
        }
        counters.reordered += u64::from(record.has(flags::REORDERED));
        arrivals.insert(record.sequence, arrivals.len() as u64);
    }
    let started = transfer.sent.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let measured = |r: &&Record| !r.has(flags::WARM_UP | flags::NOT_SENT);
    let mut samples: Vec<Sample> = Vec::new();
    let mut unstamped = 0;
    for record in transfer.sent.of(SampleKind::Source).filter(measured) {
        counters.sent += 1;
        let arrival = arrivals.get(&record.sequence).copied();
        let sent_ns = record.end_ns as i64 - started;
        let stamps = left.get(&record.sequence).zip(came.get(&record.sequence));
        let latency_ns =
            stamps.map(|(left, came)| clock::to_sender(map, *came, start) - (left - start));
        counters.received += u64::from(arrival.is_some());
        if arrival.is_some() && latency_ns.is_none() {
            unstamped += 1;
            continue;
        }
        samples.push(Sample {
            seq: samples.len() as u64,
            intended_ns: record.start_ns as i64 - started,
            sent_ns,
            received_ns: latency_ns.map(|latency| sent_ns + latency),
            latency_ns,
            arrival: arrival.and_then(|arrival| arrival.try_into().ok()),
        });
    }
    counters.lost = counters.sent - counters.received;
    Measured {
        checks: vec![checks::of_stamps(unstamped, counters.received)],
        samples,
        counters,
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use SampleKind::{Card, Sink, Source};

    use super::*;
    use crate::nodes::tests::Noted;

    fn output(records: &[(SampleKind, u32, u16, u64, u64)]) -> Output {
        let record = |&(kind, sequence, flags, start_ns, end_ns): &(_, _, _, _, _)| {
            let record = Record {
                sequence,
                flow: 0,
                flags,
                start_ns,
                end_ns,
            };
            (kind, record)
        };
        Output {
            records: records.iter().map(record).collect(),
            report: None,
        }
    }

    fn end() -> End {
        End {
            node: "n".into(),
            interface: "lan0".into(),
            mac: String::new(),
            cpu: None,
        }
    }

    /// Packets that take `delay_ns` and more between clocks, which are given the time of the sender's.
    fn transfer(
        at_ns: i64,
        delay_ns: i64,
        from: impl Fn(i64) -> i64,
        to: impl Fn(i64) -> i64,
    ) -> Transfer {
        let numbers = 0..100_u32;
        let left = |number: u32| at_ns + i64::from(number) * 2_000_000;
        let delay = |number: u32| delay_ns + i64::from(number * 7 % 10) * 30;
        let stamp = |number: u32, ns: i64| (Card, number, 0, 0, ns as u64);
        let sent: Vec<_> = numbers
            .clone()
            .map(|number| stamp(number, from(left(number))))
            .collect();
        let received: Vec<_> = numbers
            .map(|number| stamp(number, to(left(number) + delay(number))))
            .collect();
        Transfer {
            sent: output(&sent),
            received: output(&received),
        }
    }

    #[test]
    fn drift_between_the_directions_of_a_comparison_is_no_clock_that_was_set() {
        for (ppm, there_ns, back_ns) in [
            (20_i64, 500, 500),
            (-20, 500, 500),
            (20, 500, 2_000),
            (-20, 500, 2_000),
            (0, 0, 0),
        ] {
            let sender = |ns: i64| ns;
            let receiver = |ns: i64| ns + 40_000_000_000 + ns * ppm / 1_000_000;
            let compared = |at_ns: i64| {
                let forward = transfer(at_ns, there_ns, sender, receiver);
                let backward = transfer(at_ns + 500_000_000, back_ns, receiver, sender);
                Comparison {
                    there: forward.fastest(&end(), &end()).unwrap(),
                    back: backward.fastest(&end(), &end()).unwrap(),
                }
            };
            let both = offsets(compared(1_000_000_000), compared(4_000_000_000));
            let (before, after) = both.unwrap();
            assert!(is_steady(before, after), "{before:?} {after:?}");
            for offset in [before, after] {
                let true_ns = offset.at_ns - receiver(offset.at_ns);
                let error_ns = (offset.offset_ns - true_ns).unsigned_abs();
                // A nanosecond of rounding.
                assert!(
                    error_ns <= offset.error_ns + 1,
                    "{ppm}: {error_ns} {offset:?}"
                );
                let bound_ns = (there_ns + back_ns) as u64 / 2;
                assert!(
                    offset.error_ns.abs_diff(bound_ns) <= 150,
                    "{ppm}: {offset:?}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_delay_negative() {
        let compared = |sent_ns: i64, set_ns: i64| Comparison {
            there: Fastest {
                time_ns: 1_000,
                sent_ns,
            },
            back: Fastest {
                time_ns: 1_000 + set_ns,
                sent_ns: sent_ns + 500_000_000,
            },
        };
        assert!(offsets(compared(0, 0), compared(3_000_000_000, 0)).is_some());
        assert!(offsets(compared(0, -9_000), compared(3_000_000_000, 0)).is_none());
    }

    #[test]
    fn times_are_of_the_cards_and_every_packet_is_counted() {
        let transfer = Transfer {
            sent: output(&[
                (Source, 0, flags::WARM_UP, 10, 11),
                (Source, 1, 0, 20, 22),
                (Source, 2, 0, 30, 31),
                (Source, 3, 0, 40, 41),
                (Source, 4, 0, 50, 51),
                (Source, 5, flags::NOT_SENT, 60, 61),
                (Card, 0, 0, 0, 5_000),
                (Card, 1, 0, 0, 5_010),
                (Card, 2, 0, 0, 5_020),
                (Card, 4, 0, 0, 5_040),
            ]),
            received: output(&[
                (Sink, 0, 0, 10, 90),
                (Sink, 1, 0, 20, 91),
                (Sink, 3, 0, 40, 92),
                (Sink, 2, flags::REORDERED, 30, 93),
                (Sink, 2, flags::DUPLICATE, 30, 94),
                (Card, 0, 0, 0, 905_007),
                (Card, 1, 0, 0, 905_018),
                (Card, 2, 0, 0, 905_029),
                (Card, 2, 0, 0, 905_999),
                (Card, 3, 0, 0, 905_040),
            ]),
        };
        let fastest = transfer.fastest(&end(), &end()).unwrap();
        assert_eq!((fastest.time_ns, fastest.sent_ns), (900_007, 5_000));
        let map = ClockMap {
            offset_before_ns: -900_000,
            offset_after_ns: -900_000,
            before_at_ns: 0,
            after_at_ns: 100,
            error_ns: 7,
        };
        let m = join(&transfer, 5_000, Some(&map));
        let c = m.counters;
        assert_eq!((c.sent, c.received, c.lost), (4, 3, 1));
        assert_eq!((c.duplicated, c.reordered), (1, 1));
        let samples = m.samples.iter();
        let times: Vec<_> = samples
            .map(|s| (s.sent_ns, s.latency_ns, s.arrival))
            .collect();
        assert_eq!(
            times,
            [
                (22, Some(8), Some(1)),
                (31, Some(9), Some(3)),
                (51, None, None)
            ]
        );
        assert_eq!(m.checks[0].value, 1.0 / 3.0);
    }

    #[test]
    fn both_records_of_every_packet_have_room() {
        let fields = "probe: packets, timestamps: hardware, rate: 1000000, duration: 10s";
        let noted = Noted::new(fields);
        let context = noted.context();
        let end = End {
            node: "b".into(),
            interface: "eth0".into(),
            mac: "02:00:00:00:00:01".into(),
            cpu: None,
        };
        let load = Load::of(&context, "");
        let packets = load.max_packets(&context);
        assert!(Transfer::run(&context, &end, &end, &load).is_err());
        assert!(noted.max_memory() >= 48 * packets);
        let arguments = load.arguments(&context);
        let mut arguments = arguments.iter();
        assert!(arguments.any(|word| word == "--max-memory"));
        assert!(arguments.next().unwrap().parse::<u64>().unwrap() >= 48 * packets);
    }

    #[test]
    fn a_clock_that_was_set_is_not_taken_for_one_that_drifts() {
        let at = |at_ns, offset_ns| Offset {
            offset_ns,
            error_ns: 500,
            at_ns,
        };
        let before = at(7_000_000_000, -3_600_000_000_000);
        let after = |change: i64| at(9_000_000_000, -3_600_000_000_000 + change);
        assert!(is_steady(before, after(400_000)));
        assert!(is_steady(before, after(-2_001_000)));
        assert!(!is_steady(before, after(3_000_000)));
        assert!(!is_steady(before, after(3_600_000_000_000)));
    }
}
