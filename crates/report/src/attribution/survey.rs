//! Two passes over a trial's packets in the order of arrival, so that ten million need no more memory than
//! ten thousand.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hdrhistogram::Histogram;
use latlab_samples::Passage;
use latlab_wire::trace::{around, joined};

use super::stalls::Load;

/// Significant digits of the histograms.
const DIGITS: u8 = 3;

#[derive(Default)]
struct Queue {
    free_ns: u64,
    busy_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Departure of the last packet before this one, from which on the device is this packet's.
    pub free_ns: u64,
    pub busy_ns: u64,
}

impl Queue {
    fn next(&mut self, packet: &Passage) -> Turn {
        if packet.in_ns >= self.free_ns {
            self.busy_ns = packet.in_ns;
        }
        let turn = Turn {
            free_ns: self.free_ns,
            busy_ns: self.busy_ns,
        };
        self.free_ns = self.free_ns.max(packet.out_ns.unwrap_or(packet.in_ns));
        turn
    }
}

#[derive(Default, Clone, Copy)]
pub(super) struct Context {
    pub packets: u64,
    /// Packets that went in in another context.
    pub own: u64,
    /// Time and CPU of the first departure.
    pub first: (u64, u16),
}

pub struct Survey {
    limit: usize,
    queue: Queue,
    pub packets: u64,
    pub began_ns: u64,
    /// The last departure.
    ended_ns: u64,
    pub(super) contexts: BTreeMap<u32, Context>,
    service: Histogram<u64>,
    pub latency: Histogram<u64>,
    /// The slowest: latency, the earlier first among equals, arrival.
    slowest: BinaryHeap<Reverse<(u64, Reverse<u64>, u64)>>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are allowed")
}

impl Survey {
    pub fn new(limit: usize) -> Survey {
        Survey {
            limit,
            queue: Queue::default(),
            packets: 0,
            began_ns: 0,
            ended_ns: 0,
            contexts: BTreeMap::new(),
            service: histogram(),
            latency: histogram(),
            slowest: BinaryHeap::new(),
        }
    }

    pub fn add(&mut self, packet: &Passage) {
        let Some(out_ns) = packet.out_ns else {
            return;
        };
        if self.packets == 0 {
            self.began_ns = packet.in_ns;
        }
        self.ended_ns = self.ended_ns.max(out_ns);
        let turn = self.queue.next(packet);
        let service = out_ns.saturating_sub(packet.in_ns.max(turn.free_ns));
        let latency = packet.latency_ns().unwrap_or(0);
        // Resizing histograms hold every value.
        self.service.record(service).ok();
        self.latency.record(latency).ok();
        let context = self.contexts.entry(packet.out_task).or_insert(Context {
            first: (out_ns, packet.out_cpu),
            ..Context::default()
        });
        context.packets += 1;
        context.own += u64::from(packet.in_task != packet.out_task);
        let slow = Reverse((latency, Reverse(self.packets), packet.in_ns));
        if self.slowest.len() < self.limit {
            self.slowest.push(slow);
        } else if self.slowest.peek().is_some_and(|least| slow < *least) {
            self.slowest.pop();
            self.slowest.push(slow);
        }
        self.packets += 1;
    }

    pub fn usual_ns(&self) -> u64 {
        let median = self.median_ns();
        (4 * median).max(median + 10_000)
    }

    /// Median work on one packet.
    fn median_ns(&self) -> u64 {
        match self.service.len() {
            0 => 0,
            _ => self.service.value_at_quantile(0.5),
        }
    }

    pub(super) fn load(&self) -> Load {
        Load {
            trial_ns: self.ended_ns.saturating_sub(self.began_ns),
            packets: self.packets,
            median_ns: self.median_ns(),
        }
    }

    /// The second pass, for the packets around the slowest.
    pub fn pick(&self) -> Pick {
        let mut slowest: Vec<(u64, u64, u64)> = self
            .slowest
            .iter()
            .map(|&Reverse((latency, Reverse(number), in_ns))| (latency, number, in_ns))
            .collect();
        slowest.sort_by_key(|&(latency, number, _)| (Reverse(latency), number));
        let windows = slowest
            .iter()
            .map(|&(latency, _, in_ns)| around(in_ns, latency));
        Pick {
            ranges: joined(windows),
            order: slowest.iter().map(|&(_, number, _)| number).collect(),
            queue: Queue::default(),
            number: 0,
            before: None,
            is_inside: false,
            packets: Vec::new(),
            turns: Vec::new(),
            numbers: Vec::new(),
        }
    }
}

/// The second pass: the packets around the slowest, which are all that an explanation reads.
pub struct Pick {
    ranges: Vec<(u64, u64)>,
    order: Vec<u64>,
    queue: Queue,
    number: u64,
    before: Option<(Passage, Turn, u64)>,
    is_inside: bool,
    /// The picked packets in the order of arrival.
    pub packets: Vec<Passage>,
    pub turns: Vec<Turn>,
    numbers: Vec<u64>,
}

impl Pick {
    /// Takes the next packet, in the same order as the survey did.
    pub fn add(&mut self, packet: &Passage) {
        if packet.out_ns.is_none() {
            return;
        }
        let turn = self.queue.next(packet);
        let number = self.number;
        self.number += 1;
        let next = self.ranges.partition_point(|&(_, to)| to <= packet.in_ns);
        let is_inside = self.ranges.get(next).is_some_and(|r| r.0 <= packet.in_ns);
        // The neighbours of a range tell the steal at its edges.
        if is_inside && !self.is_inside {
            if let Some((packet, turn, number)) = self.before.take() {
                self.keep(packet, turn, number);
            }
        }
        if is_inside || self.is_inside {
            self.keep(*packet, turn, number);
            self.before = None;
        } else {
            self.before = Some((*packet, turn, number));
        }
        self.is_inside = is_inside;
    }

    fn keep(&mut self, packet: Passage, turn: Turn, number: u64) {
        self.packets.push(packet);
        self.turns.push(turn);
        self.numbers.push(number);
    }

    /// Positions of the slowest among the picked packets, the slowest first.
    pub fn order(&self) -> Vec<usize> {
        let at = |number: &u64| self.numbers.binary_search(number).ok();
        self.order.iter().filter_map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u32, in_ns: u64, latency: u64) -> Passage {
        Passage {
            sequence,
            in_ns,
            out_ns: Some(in_ns + latency),
            ..Passage::default()
        }
    }

    #[test]
    fn the_slowest_are_found_and_their_surroundings_picked() {
        let slow = [(100u32, 50_000), (5_000, 70_000), (5_001, 50_000)];
        let all: Vec<Passage> = (0..10_000u32)
            .map(|n| {
                let latency = slow.iter().find(|s| s.0 == n).map_or(1_000, |s| s.1);
                packet(n, u64::from(n) * 100_000, latency)
            })
            .collect();
        let mut survey = Survey::new(3);
        all.iter().for_each(|p| survey.add(p));
        assert_eq!((survey.packets, survey.usual_ns()), (10_000, 11_000));
        let mut pick = survey.pick();
        all.iter().for_each(|p| pick.add(p));
        let order: Vec<u32> = pick
            .order()
            .iter()
            .map(|&at| pick.packets[at].sequence)
            .collect();
        assert_eq!(
            order,
            [5_000, 100, 5_001],
            "the earlier of two equals first"
        );
        assert!(pick.packets.len() < 30, "{}", pick.packets.len());
        // 97 is the packet before the first range, 103 the one behind it.
        let first: Vec<u32> = pick.packets.iter().take(7).map(|p| p.sequence).collect();
        assert_eq!(first, [97, 98, 99, 100, 101, 102, 103]);
    }

    #[test]
    fn a_queue_keeps_the_device_busy() {
        let mut queue = Queue::default();
        let turns: Vec<Turn> = [packet(0, 10, 20), packet(1, 15, 40), packet(2, 60, 5)]
            .iter()
            .map(|p| queue.next(p))
            .collect();
        assert_eq!((turns[1].free_ns, turns[1].busy_ns), (30, 10));
        assert_eq!((turns[2].free_ns, turns[2].busy_ns), (55, 60));
    }
}
