//! Tap records, matched and not yet written. Packets are handed over one by one, so that ten million take
//! no memory beyond the tap records and a few words each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use latlab_model::results::Counters;
use latlab_samples::{Passage, Sample};
use latlab_trace::recorder::around;
use latlab_trace::taps::Seen;
use latlab_trace::taps::matching::{HopCounters, Matching};
use latlab_wire::samples::{Record, SampleKind, flags};
use latlab_wire::trace::WORST_PACKETS;

use crate::endpoint::Output;

#[derive(Debug, Default)]
struct Sent {
    records: Vec<Record>,
    start_ns: i64,
}

impl Sent {
    fn of(output: &mut Output) -> Sent {
        let mut records: Vec<Record> = std::mem::take(&mut output.records)
            .into_iter()
            .filter(|(kind, record)| {
                *kind == SampleKind::Source && !record.has(flags::WARM_UP | flags::NOT_SENT)
            })
            .map(|(_, record)| record)
            .collect();
        records.sort_by_key(|record| record.sequence);
        Sent {
            records,
            start_ns: output.report.as_ref().map_or(0, |r| r.started_ns) as i64,
        }
    }

    fn find(&self, sequence: u32) -> Option<&Record> {
        let at = self.records.binary_search_by_key(&sequence, |r| r.sequence);
        at.ok().map(|at| &self.records[at])
    }
}

#[derive(Debug, Default)]
pub struct Timed {
    sent: Sent,
    taps: Vec<(String, Seen)>,
    hops: Vec<Matching>,
    /// From the first tap to the last, where that is more than one device.
    whole: Option<Matching>,
}

impl Timed {
    #[must_use]
    pub fn new(sent: &mut Output, taps: Vec<(String, Seen)>) -> Timed {
        let sent = Sent::of(sent);
        let counted = |record: &latlab_wire::trace::TapRecord| sent.find(record.sequence).is_some();
        let between = |a: &(String, Seen), b: &(String, Seen)| Matching::new(&a.1, &b.1, counted);
        let hops: Vec<Matching> = taps
            .windows(2)
            .map(|two| between(&two[0], &two[1]))
            .collect();
        let whole = match (taps.first(), taps.last()) {
            (Some(first), Some(last)) if hops.len() > 1 => Some(between(first, last)),
            _ => None,
        };
        Timed {
            sent,
            taps,
            hops,
            whole,
        }
    }

    /// For each device the names of the taps before and behind it, and its counters.
    pub fn hops(&self) -> impl Iterator<Item = (&str, &str, &HopCounters)> {
        let pairs = self.taps.windows(2).zip(&self.hops);
        pairs.map(|(two, hop)| (two[0].0.as_str(), two[1].0.as_str(), &hop.counters))
    }

    /// Each tap's name, and its number of frames from outside this measurement.
    pub fn foreign(&self) -> impl Iterator<Item = (&str, u64)> {
        self.taps
            .iter()
            .map(|(name, seen)| (name.as_str(), seen.foreign))
    }

    /// Hands over the measured packets' passages, device by device, in the order of the tap before it.
    pub fn each_passage(&self, mut take: impl FnMut(Passage)) {
        for (number, (two, hop)) in self.taps.windows(2).zip(&self.hops).enumerate() {
            hop.each(number as u16, &two[0].1, &two[1].1, |passage, _| {
                if self.sent.find(passage.sequence).is_some() {
                    take(passage);
                }
            });
        }
    }

    /// Hands over one sample a packet, from the first tap to the last.
    pub fn each_sample(&self, mut take: impl FnMut(Sample)) {
        let (Some(first), Some(last)) = (self.taps.first(), self.taps.last()) else {
            return;
        };
        let Some(matching) = self.whole.as_ref().or(self.hops.first()) else {
            return;
        };
        let start = self.sent.start_ns;
        let mut seq = 0;
        matching.each(0, &first.1, &last.1, |passage, rank| {
            let Some(record) = self.sent.find(passage.sequence) else {
                return;
            };
            take(Sample {
                seq,
                intended_ns: record.start_ns as i64 - start,
                sent_ns: passage.in_ns as i64 - start,
                received_ns: passage.out_ns.map(|ns| ns as i64 - start),
                latency_ns: passage.latency_ns().map(|ns| ns as i64),
                arrival: rank.map(i64::from),
            });
            seq += 1;
        });
    }

    /// Counters of the measured packets from the first tap to the last.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.each_sample(|sample| {
            counters.sent += 1;
            counters.received += u64::from(sample.latency_ns.is_some());
        });
        counters.lost = counters.sent - counters.received;
        if let Some(matching) = self.whole.as_ref().or(self.hops.first()) {
            let hop = &matching.counters;
            counters.duplicated = hop.duplicated;
            counters.reordered = hop.reordered;
            counters.unmatched = hop.unmatched;
            counters.corrupted = hop.corrupted;
        }
        counters
    }

    /// Times around the slowest packets of every device, and the tasks in which those came out.
    #[must_use]
    pub fn slowest(&self) -> (Vec<(u64, u64)>, BTreeSet<u32>) {
        let mut slowest: Vec<BinaryHeap<Reverse<(u64, u64, u32)>>> = Vec::new();
        slowest.resize_with(self.hops.len(), BinaryHeap::new);
        self.each_passage(|passage| {
            let Some(latency) = passage.latency_ns() else {
                return;
            };
            let heap = &mut slowest[usize::from(passage.hop)];
            heap.push(Reverse((latency, passage.in_ns, passage.out_task)));
            if heap.len() > WORST_PACKETS {
                heap.pop();
            }
        });
        let all = slowest.into_iter().flatten();
        let (mut spans, mut tasks) = (Vec::new(), BTreeSet::new());
        for Reverse((latency, in_ns, task)) in all {
            spans.push(around(in_ns, latency));
            if task != 0 {
                tasks.insert(task);
            }
        }
        (spans, tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::trace::TapRecord;

    fn seen(sequences: &[u32], at_ns: u64) -> Seen {
        let record = |(place, &sequence): (usize, &u32)| TapRecord {
            time_ns: at_ns + place as u64 * 1_000,
            sequence,
            ..TapRecord::default()
        };
        let records: Vec<TapRecord> = sequences.iter().enumerate().map(record).collect();
        Seen {
            records: records.into(),
            ..Seen::default()
        }
    }

    fn sent(count: u32) -> Output {
        let record = |sequence: u32| Record {
            sequence,
            flow: 0,
            flags: if sequence == 0 { flags::WARM_UP } else { 0 },
            start_ns: 1_000 * u64::from(sequence),
            end_ns: 0,
        };
        Output {
            records: (0..count)
                .map(|n| (SampleKind::Source, record(n)))
                .collect(),
            report: None,
        }
    }

    /// Two devices in a row; the first loses packet 2, the second packet 3 and reorders.
    #[test]
    fn latency_is_timed_per_device_and_end_to_end() {
        let taps = vec![
            ("a".into(), seen(&[0, 1, 2, 3, 4], 10_000)),
            ("b".into(), seen(&[0, 1, 3, 4], 20_000)),
            ("c".into(), seen(&[0, 4, 1], 40_000)),
        ];
        let timed = Timed::new(&mut sent(5), taps);
        let hops: Vec<(&str, &str, u64)> = timed.hops().map(|(a, b, f)| (a, b, f.lost)).collect();
        assert_eq!(hops, [("a", "b", 1), ("b", "c", 1)]);
        let mut passages = Vec::new();
        timed.each_passage(|p| passages.push((p.hop, p.sequence, p.latency_ns())));
        let expected = [
            (0, 1, Some(10_000)),
            (0, 2, None),
            (0, 3, Some(9_000)),
            (0, 4, Some(9_000)),
            (1, 1, Some(21_000)),
            (1, 3, None),
            (1, 4, Some(18_000)),
        ];
        assert_eq!(passages, expected, "packet 0 is of the warm-up");
        let mut samples = Vec::new();
        timed.each_sample(|s| samples.push((s.seq, s.latency_ns, s.arrival)));
        let whole = [
            (0, Some(31_000), Some(1)),
            (1, None, None),
            (2, None, None),
            (3, Some(27_000), Some(0)),
        ];
        assert_eq!(samples, whole);
        let counters = timed.counters();
        assert_eq!((counters.sent, counters.received, counters.lost), (4, 2, 2));
        assert_eq!(counters.reordered, 1);
    }
}
