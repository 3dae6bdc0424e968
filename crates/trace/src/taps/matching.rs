//! Matches the records of two taps to each packet's passage between them.

use std::collections::HashMap;

use latlab_samples::Passage;
use latlab_wire::trace::TapRecord;

use super::records::{Records, Seen};

/// A time that does not fit 32 bits of nanoseconds: datasets of this field contain latencies that are
/// this much too long, because a 32-bit timestamp wrapped. Ours have 64 bits and cannot.
pub const WRAP_NS: u64 = 1 << 32;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HopCounters {
    /// Packets at the first tap.
    pub entered: u64,
    /// Packets also seen by the second.
    pub left: u64,
    /// Packets not seen by the second.
    pub lost: u64,
    /// Repeated at either tap.
    pub duplicated: u64,
    /// Left after a later packet of their flow.
    pub reordered: u64,
    /// At the second tap only.
    pub unmatched: u64,
    /// Changed between the taps.
    pub corrupted: u64,
    /// Packets with a latency of 2^32 ns or more, or below 0, which is none.
    pub impossible: u64,
    /// Packets without room in a tap's records.
    pub no_room: u64,
}

/// Index of a packet's record behind the device plus 1; 0: none.
type Slot = u32;
/// A duplicate at the first tap.
const DUPLICATE: Slot = Slot::MAX;
/// The order of arrival of a packet that was not counted, or never arrived.
const UNCOUNTED: u32 = u32::MAX;

/// Pairs of records before and behind a device: eight bytes a packet, at any number of packets.
#[derive(Debug)]
pub struct Matching {
    pub counters: HopCounters,
    slots: Vec<Slot>,
    ranks: Vec<u32>,
}

/// Finds a record by its identity. Sequence numbers are dense if only our generator sends; others go into a
/// map.
struct Index {
    dense: Vec<u32>,
    sparse: HashMap<(u16, u32), u32>,
    limit: usize,
}

impl Index {
    fn new(records: &Records) -> Index {
        Index {
            dense: Vec::new(),
            sparse: HashMap::new(),
            limit: 2 * records.len() + 1024,
        }
    }

    fn find(&self, records: &Records, id: (u16, u32)) -> Option<usize> {
        let place = self.dense.get(id.1 as usize).copied().unwrap_or(0);
        if place > 0 && records.get(place as usize - 1).map(|r| r.flow) == Some(id.0) {
            return Some(place as usize - 1);
        }
        self.sparse.get(&id).map(|&at| at as usize)
    }

    fn insert(&mut self, id: (u16, u32), at: usize) {
        let sequence = id.1 as usize;
        if sequence < self.limit {
            if self.dense.len() <= sequence {
                self.dense.resize(sequence + 1, 0);
            }
            if self.dense[sequence] == 0 {
                self.dense[sequence] = at as u32 + 1;
                return;
            }
        }
        self.sparse.insert(id, at as u32);
    }
}

impl Matching {
    /// Matches the records before and behind a device. Only packets that are `counted` have a place in the
    /// order of arrival.
    #[must_use]
    pub fn new(before: &Seen, behind: &Seen, counted: impl Fn(&TapRecord) -> bool) -> Matching {
        let mut counters = HopCounters {
            no_room: before.no_room + behind.no_room,
            ..HopCounters::default()
        };
        let mut slots: Vec<Slot> = vec![0; before.records.len()];
        let mut ranks = vec![UNCOUNTED; before.records.len()];
        let mut index = Index::new(&before.records);
        for (at, record) in before.records.iter() {
            if index.find(&before.records, id(&record)).is_some() {
                counters.duplicated += 1;
                slots[at] = DUPLICATE;
                continue;
            }
            index.insert(id(&record), at);
            counters.entered += 1;
        }
        let mut last: HashMap<u16, u32> = HashMap::new();
        let mut rank = 0;
        for (at, record) in behind.records.iter() {
            let Some(place) = index.find(&before.records, id(&record)) else {
                counters.unmatched += 1;
                continue;
            };
            let Some(entered) = before.records.get(place) else {
                continue;
            };
            if slots[place] != 0 {
                counters.duplicated += 1;
                continue;
            }
            if record.check != entered.check {
                counters.corrupted += 1;
                continue;
            }
            match record.time_ns.checked_sub(entered.time_ns) {
                Some(latency) if latency < WRAP_NS => {}
                _ => {
                    counters.impossible += 1;
                    continue;
                }
            }
            let latest = last.entry(record.flow).or_insert(record.sequence);
            counters.reordered += u64::from(record.sequence < *latest);
            *latest = record.sequence.max(*latest);
            slots[place] = at as Slot + 1;
            if counted(&record) {
                ranks[place] = rank;
                rank += 1;
            }
            counters.left += 1;
        }
        counters.lost = counters.entered - counters.left;
        Matching {
            counters,
            slots,
            ranks,
        }
    }

    /// Hands over every packet's passage in the order of the first tap's records, with its place in the order
    /// of arrival.
    pub fn each(
        &self,
        hop: u16,
        before: &Seen,
        behind: &Seen,
        mut take: impl FnMut(Passage, Option<u32>),
    ) {
        for (at, record) in before.records.iter() {
            let slot = self.slots.get(at).copied().unwrap_or(DUPLICATE);
            if slot == DUPLICATE {
                continue;
            }
            let mut passage = Passage {
                hop,
                flow: record.flow,
                sequence: record.sequence,
                in_ns: record.time_ns,
                out_ns: None,
                in_cpu: record.cpu,
                out_cpu: record.cpu,
                in_task: record.task,
                out_task: 0,
                in_steal_ns: record.steal_ns,
                out_steal_ns: 0,
                bytes: record.bytes,
            };
            let left = (slot as usize).checked_sub(1);
            if let Some(left) = left.and_then(|at| behind.records.get(at)) {
                passage.out_ns = Some(left.time_ns);
                passage.out_cpu = left.cpu;
                passage.out_task = left.task;
                passage.out_steal_ns = left.steal_ns;
            }
            let rank = self.ranks.get(at).copied();
            take(passage, rank.filter(|&rank| rank != UNCOUNTED));
        }
    }
}

/// Matches, and collects all passages.
#[must_use]
pub fn matched(hop: u16, before: &Seen, behind: &Seen) -> (Vec<Passage>, HopCounters) {
    let matching = Matching::new(before, behind, |_| true);
    let mut all = Vec::new();
    matching.each(hop, before, behind, |passage, _| all.push(passage));
    (all, matching.counters)
}

fn id(record: &TapRecord) -> (u16, u32) {
    (record.flow, record.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flow: u16, sequence: u32, time_ns: u64) -> TapRecord {
        TapRecord {
            time_ns,
            sequence,
            flow,
            check: sequence.wrapping_mul(3),
            ..TapRecord::default()
        }
    }

    fn seen(records: Vec<TapRecord>) -> Seen {
        Seen {
            records: records.into(),
            no_room: 1,
            foreign: 5,
        }
    }

    #[test]
    fn every_packet_has_one_fate() {
        let before = seen(vec![
            record(1, 0, 100),
            record(1, 1, 200),
            record(2, 1, 210),
            record(1, 1, 220),
            record(1, 2, 300),
            record(1, 3, 400),
            record(1, 4, 500),
            record(1, 5, 600),
        ]);
        let mut changed = record(1, 3, 450);
        changed.check += 1;
        let behind = seen(vec![
            record(1, 1, 260),
            record(1, 0, 261),
            record(2, 1, 270),
            record(1, 1, 280),
            changed,
            record(1, 4, 499),
            record(1, 5, 600 + WRAP_NS),
            record(9, 9, 700),
        ]);
        let (passages, counters) = matched(3, &before, &behind);
        let expected = HopCounters {
            entered: 7,
            left: 3,
            lost: 4,
            duplicated: 2,
            reordered: 1,
            unmatched: 1,
            corrupted: 1,
            impossible: 2,
            no_room: 2,
        };
        assert_eq!(counters, expected);
        assert_eq!(passages.len(), 7);
        assert_eq!(passages[0].latency_ns(), Some(161));
        assert_eq!((passages[2].hop, passages[2].flow), (3, 2));
        assert_eq!(passages[3].out_ns, None);
    }

    #[test]
    fn numbers_that_no_generator_made_are_matched_too() {
        let ids = [(1, 5), (2, 5), (3, u32::MAX), (3, u32::MAX - 1), (1, 0)];
        let at = |time| move |&(flow, sequence): &(u16, u32)| record(flow, sequence, time);
        let before = seen(ids.iter().map(at(100)).collect());
        let behind = seen(ids.iter().rev().map(at(200)).collect());
        let (passages, counters) = matched(0, &before, &behind);
        assert_eq!(
            (counters.entered, counters.left, counters.duplicated),
            (5, 5, 0)
        );
        assert!(passages.iter().all(|p| p.latency_ns() == Some(100)));
    }

    #[test]
    fn only_counted_packets_have_a_place_in_the_order_of_arrival() {
        let before = seen((0..4).map(|n| record(1, n, 100 + u64::from(n))).collect());
        let behind = seen([0, 3, 1, 2].map(|n| record(1, n, 500)).to_vec());
        let matching = Matching::new(&before, &behind, |record| record.sequence > 0);
        let mut ranks = Vec::new();
        matching.each(0, &before, &behind, |_, rank| ranks.push(rank));
        assert_eq!(ranks, [None, Some(1), Some(2), Some(0)]);
    }
}
