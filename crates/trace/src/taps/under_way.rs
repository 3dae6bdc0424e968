//! The packets between two taps during the run, for the early detection of slow ones.
//!
//! The exact matching follows after the window ([`super::matching`]). This is an estimate in bounded memory,
//! 40 MiB for a pair of taps: a packet is forgotten when a million others came after it.

use std::collections::VecDeque;

use latlab_wire::trace::TapRecord;

use super::follow::{Follow, Live};
use super::matching::WRAP_NS;

/// Packets that may be under way at once.
const MAX_IN_FLIGHT: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Time at the first tap.
    pub in_ns: u64,
    pub latency_ns: u64,
    /// The task in which it came out; 0 for none.
    pub task: u32,
}

/// A packet at the first tap; an unused slot has no time.
#[derive(Debug, Clone, Copy, Default)]
struct Entered {
    in_ns: u64,
    sequence: u32,
    check: u32,
    flow: u16,
}

pub struct UnderWay {
    before: Follow,
    behind: Follow,
    /// Indexed by the packet's number, which counts on with every packet.
    table: Vec<Entered>,
    /// Time and slot of each packet, in order; some have come out.
    order: VecDeque<(u64, u32)>,
}

impl UnderWay {
    #[must_use]
    pub fn new(before: Live, behind: Live) -> UnderWay {
        UnderWay {
            before: Follow::new(before),
            behind: Follow::new(behind),
            table: vec![Entered::default(); MAX_IN_FLIGHT],
            order: VecDeque::new(),
        }
    }

    /// Reads at most `count` records from before `until_ns`, and hands over each packet that comes out.
    /// Returns whether there may be more.
    pub fn advance(&mut self, count: usize, until_ns: u64, mut take: impl FnMut(Passed)) -> bool {
        let mut came = self.before.next(until_ns);
        let mut left = self.behind.next(until_ns);
        for _ in 0..count {
            match (came, left) {
                (Some((ns, at)), _) if left.is_none_or(|(left_ns, _)| ns <= left_ns) => {
                    let record = self.before.take(at);
                    self.enter(&record);
                    came = self.before.next(until_ns);
                }
                (_, Some((_, at))) => {
                    let record = self.behind.take(at);
                    if let Some(passed) = self.leave(&record) {
                        take(passed);
                    }
                    left = self.behind.next(until_ns);
                }
                _ => return false,
            }
        }
        true
    }

    /// Time at the first tap of the packet that is under way for longest. No latency exceeds 2^32 ns: later
    /// departures get none.
    pub fn oldest_ns(&mut self, now_ns: u64) -> Option<u64> {
        while let Some(&(in_ns, slot)) = self.order.front() {
            let is_there = self.table[slot as usize].in_ns == in_ns;
            if is_there && in_ns + WRAP_NS > now_ns {
                return Some(in_ns);
            }
            self.order.pop_front();
        }
        None
    }

    fn enter(&mut self, record: &TapRecord) {
        let slot = record.sequence as usize % MAX_IN_FLIGHT;
        let there = self.table[slot];
        if there.in_ns != 0 && (there.sequence, there.flow) == (record.sequence, record.flow) {
            return;
        }
        self.table[slot] = Entered {
            in_ns: record.time_ns,
            sequence: record.sequence,
            check: record.check,
            flow: record.flow,
        };
        if self.order.len() == MAX_IN_FLIGHT {
            self.order.pop_front();
        }
        self.order.push_back((record.time_ns, slot as u32));
        // Packets that came out need no slot.
        while let Some(&(in_ns, slot)) = self.order.front() {
            if self.table[slot as usize].in_ns == in_ns {
                break;
            }
            self.order.pop_front();
        }
    }

    fn leave(&mut self, record: &TapRecord) -> Option<Passed> {
        let there = &mut self.table[record.sequence as usize % MAX_IN_FLIGHT];
        let same = (there.sequence, there.flow, there.check)
            == (record.sequence, record.flow, record.check);
        let latency_ns = record.time_ns.checked_sub(there.in_ns)?;
        if there.in_ns == 0 || !same || latency_ns >= WRAP_NS {
            return None;
        }
        let in_ns = std::mem::take(&mut there.in_ns);
        Some(Passed {
            in_ns,
            latency_ns,
            task: record.task,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::follow::tests::Written;
    use super::*;

    fn record(sequence: u32, time_ns: u64) -> TapRecord {
        TapRecord {
            time_ns,
            sequence,
            flow: 1,
            check: sequence ^ 7,
            task: 40 + sequence,
            ..TapRecord::default()
        }
    }

    #[test]
    fn departed_packets_and_those_under_way_are_known() {
        let (mut before, mut behind) = (Written::new(64), Written::new(64));
        let mut way = UnderWay::new(before.live.clone(), behind.live.clone());
        let all = |way: &mut UnderWay, until_ns| {
            let mut passed = Vec::new();
            while way.advance(3, until_ns, |one| {
                passed.push((one.in_ns, one.latency_ns, one.task));
            }) {}
            passed
        };
        (0..8).for_each(|n| before.write(record(n, 100 + u64::from(n))));
        let mut changed = record(3, 210);
        changed.check += 1;
        for left in [
            record(1, 200),
            changed,
            record(9, 215),
            record(1, 220),
            record(0, 230),
        ] {
            behind.write(left);
        }
        assert_eq!(all(&mut way, 230), [(101, 99, 41)]);
        assert_eq!(way.oldest_ns(300), Some(100));
        assert_eq!(all(&mut way, 231), [(100, 130, 40)]);
        assert_eq!(way.oldest_ns(300), Some(102));
        assert_eq!(way.oldest_ns(103 + WRAP_NS), Some(104), "2 and 3 are lost");
        assert_eq!(all(&mut way, 1_000), []);
    }

    #[test]
    fn a_packet_is_forgotten_when_its_place_is_taken() {
        let (mut before, mut behind) = (Written::new(64), Written::new(64));
        let mut way = UnderWay::new(before.live.clone(), behind.live.clone());
        before.write(record(5, 100));
        before.write(record(5 + MAX_IN_FLIGHT as u32, 110));
        behind.write(record(5, 150));
        behind.write(record(5 + MAX_IN_FLIGHT as u32, 160));
        let mut passed = Vec::new();
        assert!(!way.advance(100, 1_000, |one| passed.push(one.in_ns)));
        assert_eq!(passed, [110]);
        assert_eq!(way.oldest_ns(1_000), None);
    }
}
