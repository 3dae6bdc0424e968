//! Reads the rings while the kernel writes them, so that a run may be longer than they are.
//!
//! Nothing is read while every ring has as much free room as it holds. Then follows a pass. The taps tell the
//! packets that came out since the last one, and the slowest of the run so far have their windows. The rings'
//! events go through each CPU's [`WindowFilter`], up to the time at which the oldest packet under way went
//! in: no window begins before. Windows of packets that are no longer among the slowest are dropped. The last
//! pass at the end of the run has the windows of the final slowest packets.
//!
//! Memory does not grow with the run. Kept events take at most a third of the rings' memory or 64 MiB a CPU;
//! beyond, only the slowest half of the packets keep their windows. Each pair of taps takes 40 MiB.
//!
//! Gaps are reported: events that were overwritten before they were read, and windows that were not kept
//! because they were not known in time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use latlab_wire::trace::{EVENT_BYTES, Event, WINDOW_MARGIN_NS, WORST_PACKETS, around, joined};

use super::recorded::{Recorded, Watched};
use super::rings::Rings;
use super::windows::{Window, WindowFilter, without};
use crate::taps::Live;
use crate::taps::under_way::UnderWay;

/// A quarter of the events that the rings hold may be kept.
const RING_EVENTS_PER_KEPT: u64 = 4;
/// Events that may be kept in any case: 64 MiB of them.
const MIN_KEPT: u64 = 1 << 20;
/// The reader stays this part of a ring behind the writer: the writing of an event may be interrupted by the
/// writing of others.
const BEHIND_PART: u64 = 8;
/// Records read between two checks whether it is enough.
const BATCH: usize = 64;
/// Tasks of a device at most. Beyond, packets come out of the kernel in many tasks, and belong to none.
const MAX_TASKS: usize = 64;
/// Gaps of each CPU at most; further ones are joined to the last.
const MAX_GAPS: usize = 4096;
/// Maximum rate of a CPU's events, to know when to read again.
const EVENTS_PER_SECOND: u64 = 5_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Number of the slowest packets of each device that have a window.
    pub packets: usize,
    /// Packets within this time of the first are none of them.
    pub skip_ns: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted {
            packets: WORST_PACKETS,
            skip_ns: 0,
        }
    }
}

/// Reads the rings in turns of any size.
pub struct Follower {
    rings: Rings,
    hops: Vec<Slow>,
    wanted: Wanted,
    tasks: BTreeSet<u32>,
    readers: Vec<Reader>,
    windows: Vec<Window>,
    /// No window is known that begins later.
    horizon_ns: u64,
    at: At,
    batch: Vec<[u8; EVENT_BYTES]>,
    /// Events kept of a CPU at most.
    most_kept: usize,
}

enum At {
    /// Nothing, until a ring is half full.
    Rest,
    /// This pair of taps, up to a time.
    Packets(usize, u64),
    Events(usize),
}

struct Slow {
    way: UnderWay,
    first_ns: Option<u64>,
    /// By latency, and when they went in.
    slowest: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Slow {
    /// Reads some more records; returns whether there may be others.
    fn advance(&mut self, until_ns: u64, wanted: Wanted, tasks: &mut BTreeSet<u32>) -> bool {
        let Slow {
            way,
            first_ns,
            slowest,
        } = self;
        way.advance(BATCH, until_ns, |passed| {
            let first_ns = *first_ns.get_or_insert(passed.in_ns);
            if passed.in_ns < first_ns + wanted.skip_ns {
                return;
            }
            if passed.task != 0 && tasks.len() < MAX_TASKS {
                tasks.insert(passed.task);
            }
            let one = (passed.latency_ns, passed.in_ns);
            let is_full = slowest.len() >= wanted.packets;
            if is_full && slowest.peek().is_some_and(|Reverse(least)| *least >= one) {
                return;
            }
            slowest.push(Reverse(one));
            if is_full {
                slowest.pop();
            }
        })
    }

    fn windows(&self) -> impl Iterator<Item = Window> {
        let around = |Reverse((latency, in_ns)): &Reverse<(u64, u64)>| around(*in_ns, *latency);
        self.slowest.iter().map(around)
    }
}

/// How far one ring is read, and what of it is kept.
struct Reader {
    filter: WindowFilter,
    next: u64,
    /// Events that must be written before the next pass.
    wake_at: u64,
    overwritten: u64,
    /// Begin of a gap, until the next event is found.
    lost_ns: Option<u64>,
    holes: Vec<Window>,
    steal_known: bool,
}

impl Reader {
    fn new(size: u64) -> Reader {
        Reader {
            filter: WindowFilter::default(),
            next: 0,
            wake_at: size / 2,
            overwritten: 0,
            lost_ns: None,
            holes: Vec::new(),
            steal_known: false,
        }
    }

    fn lose(&mut self, until: u64) {
        self.overwritten += until.saturating_sub(self.next);
        self.next = self.next.max(until);
        self.lost_ns.get_or_insert(self.filter.known_ns());
    }

    fn take(&mut self, event: Event) {
        if let Some(from_ns) = self.lost_ns.take() {
            let hole = (from_ns, event.time_ns.max(from_ns));
            let is_full = self.holes.len() >= MAX_GAPS;
            match self.holes.last_mut() {
                Some(last) if is_full => last.1 = hole.1,
                _ => self.holes.push(hole),
            }
            self.filter.lost_until(hole.1);
        }
        self.steal_known |= event.steal_ns > 0;
        self.filter.take(event);
    }

    fn conclude(
        self,
        cpu: u16,
        windows: &[Window],
        tasks: &BTreeSet<u32>,
    ) -> (Watched, Vec<Event>) {
        let kept = self.filter.finish();
        let mut lost = joined(self.holes);
        let known = joined(kept.windows.iter().chain(&lost).copied());
        // Losses before the first read are told by one time.
        let complete_from_ns = match lost.first() {
            Some(&(0, to)) => {
                lost.remove(0);
                to
            }
            _ => 0,
        };
        let watched = Watched {
            cpu,
            complete_from_ns,
            overwritten: self.overwritten,
            lost,
            not_kept: without(windows, &known),
        };
        // The kept events include windows of packets that were dropped in the end.
        let mut filter = WindowFilter::new(tasks);
        filter.look_for(windows);
        kept.events.into_iter().for_each(|event| filter.take(event));
        (watched, filter.finish().events)
    }
}

impl Follower {
    pub(super) fn new(rings: Rings, taps: &[Live], wanted: Wanted) -> Follower {
        let hop = |two: &[Live]| Slow {
            way: UnderWay::new(two[0].clone(), two[1].clone()),
            first_ns: None,
            slowest: BinaryHeap::new(),
        };
        Follower {
            most_kept: (rings.size / RING_EVENTS_PER_KEPT).max(MIN_KEPT) as usize,
            readers: rings.cpus.iter().map(|_| Reader::new(rings.size)).collect(),
            hops: taps.windows(2).map(hop).collect(),
            rings,
            wanted,
            tasks: BTreeSet::new(),
            windows: Vec::new(),
            horizon_ns: 0,
            at: At::Rest,
            batch: Vec::new(),
        }
    }

    /// Polling interval of an idle reader.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        let poll_interval =
            Duration::from_nanos(self.rings.size * 1_000_000_000 / EVENTS_PER_SECOND / 8);
        poll_interval.clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    /// Works for some microseconds; returns whether there is more to do at once. `now_ns` is the time of the
    /// kernel's clock (`CLOCK_MONOTONIC`).
    pub fn turn(&mut self, now_ns: u64) -> bool {
        match self.at {
            At::Rest => {
                let wanted =
                    |(ring, reader): (usize, &Reader)| self.rings.written(ring) > reader.wake_at;
                if !self.readers.iter().enumerate().any(wanted) {
                    return false;
                }
                // Records written just now may not be visible yet.
                self.at = At::Packets(0, now_ns.saturating_sub(1_000_000));
            }
            At::Packets(number, until_ns) => match self.hops.get_mut(number) {
                Some(hop) => {
                    if !hop.advance(until_ns, self.wanted, &mut self.tasks) {
                        self.at = At::Packets(number + 1, until_ns);
                    }
                }
                None => {
                    self.look_around(until_ns);
                    self.at = At::Events(0);
                }
            },
            At::Events(ring) if ring < self.readers.len() => {
                if !self.read(ring, self.rings.size / BEHIND_PART, self.horizon_ns) {
                    self.at = At::Events(ring + 1);
                }
            }
            At::Events(_) => {
                self.let_go();
                let size = self.rings.size;
                for (ring, reader) in self.readers.iter_mut().enumerate() {
                    // A packet that was under way for long may have kept the pass short.
                    let some = self.rings.written(ring) + size / 16;
                    reader.wake_at = some.max(reader.next + size / 2);
                }
                self.at = At::Rest;
            }
        }
        true
    }

    /// Packets are known until a time: finds their windows, and the earliest begin of any other.
    fn look_around(&mut self, until_ns: u64) {
        let oldest = self.hops.iter_mut().map(|hop| hop.way.oldest_ns(until_ns));
        let oldest = oldest.flatten().min().unwrap_or(until_ns).min(until_ns);
        let horizon_ns = oldest.saturating_sub(WINDOW_MARGIN_NS);
        self.horizon_ns = horizon_ns.max(self.horizon_ns);
        self.look_for_slowest();
    }

    fn look_for_slowest(&mut self) {
        self.windows = joined(self.hops.iter().flat_map(Slow::windows));
        for reader in &mut self.readers {
            reader.filter.know(&self.tasks);
            reader.filter.look_for(&self.windows);
        }
    }

    /// Reads some records of a ring, up to a time, without the newest `behind`; returns whether there may be
    /// more.
    fn read(&mut self, ring: usize, behind: u64, until_ns: u64) -> bool {
        let (size, written) = (self.rings.size, self.rings.written(ring));
        let reader = &mut self.readers[ring];
        let end = written.saturating_sub(behind);
        let count = (BATCH as u64).min(end.saturating_sub(reader.next));
        if count == 0 {
            return false;
        }
        if !self.rings.copy(ring, reader.next, count, &mut self.batch) {
            // From where there is time to read it.
            reader.lose(self.rings.written(ring) + behind - size);
            return true;
        }
        // Read up to here at any rate, or the events would be overwritten.
        let at_least = written.saturating_sub(size - size / 4);
        for bytes in &self.batch {
            let [first, second, last] = Event::from_ring(bytes);
            let time_ns = last.or(first).map_or(0, |event| event.time_ns);
            if time_ns >= until_ns && reader.next >= at_least {
                return false;
            }
            reader.next += 1;
            let told = [first, second, last].into_iter().flatten();
            told.filter(|event| event.time_ns != 0)
                .for_each(|event| reader.take(event));
        }
        if reader.filter.len() > self.most_kept {
            self.want_fewer();
        }
        true
    }

    /// Only the slowest half of the packets keep their windows.
    fn want_fewer(&mut self) {
        let is_much = |reader: &Reader, most| reader.filter.len() > most;
        while self.wanted.packets > 1 && self.readers.iter().any(|r| is_much(r, self.most_kept)) {
            self.wanted.packets /= 2;
            for hop in &mut self.hops {
                while hop.slowest.len() > self.wanted.packets {
                    hop.slowest.pop();
                }
            }
            self.look_for_slowest();
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        for reader in &mut self.readers {
            reader.filter.let_go(&self.windows);
        }
    }

    /// Reads the rest after the end of writing; the events in these windows. `tasks` are those of the device.
    pub(super) fn finish(mut self, windows: &[Window], tasks: &BTreeSet<u32>) -> Recorded {
        let windows = joined(windows.iter().copied());
        // The rest that is kept is no more than the rings hold.
        self.wanted.packets = 0;
        let mut recorded = Recorded::default();
        for ring in 0..self.readers.len() {
            self.readers[ring].filter.know(tasks);
            self.readers[ring].filter.look_for(&windows);
            while self.read(ring, 0, u64::MAX) {}
        }
        for (reader, &cpu) in self.readers.into_iter().zip(&self.rings.cpus) {
            recorded.gaps.steal_known |= reader.steal_known;
            let (watched, events) = reader.conclude(cpu, &windows, tasks);
            recorded.gaps.cpus.push(watched);
            recorded.events.extend(events);
        }
        recorded
    }
}

#[cfg(test)]
mod tests;
