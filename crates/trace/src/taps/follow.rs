//! Reads a tap's records while it writes them, in the order of time.
//!
//! Each CPU reserves a chunk of records at a time, so several are being filled at once. A chunk is reserved
//! when its first record is written, so the next record in time is in a begun chunk, or the first of the
//! next.

use std::sync::Arc;

use latlab_wire::trace::{TAP_RECORD_BYTES, TapRecord};

use super::records::record;
use crate::sys::Shared;

#[derive(Clone)]
pub struct Live {
    records: Arc<Shared>,
    /// And where in it the number of chunks is.
    counters: (Arc<Shared>, usize),
    chunk: u64,
    room: u64,
}

impl Live {
    pub(super) fn new(
        records: Arc<Shared>,
        counters: (Arc<Shared>, usize),
        (chunk, room): (u64, u64),
    ) -> Live {
        Live {
            records,
            counters,
            chunk,
            room,
        }
    }

    fn chunks(&self) -> u64 {
        let (counters, at) = &self.counters;
        counters.load(*at).min(self.room / self.chunk)
    }

    /// The time is a record's first word, and written last.
    fn time_ns(&self, place: u64) -> u64 {
        self.records.load(place as usize * TAP_RECORD_BYTES)
    }
}

pub(super) struct Follow {
    tap: Live,
    /// The next record of every chunk that is not read to its end; the last chunk is unread.
    open: Vec<u64>,
    /// Chunks that were begun.
    begun: u64,
}

impl Follow {
    pub fn new(tap: Live) -> Follow {
        Follow {
            tap,
            open: Vec::new(),
            begun: 0,
        }
    }

    pub fn next(&mut self, until_ns: u64) -> Option<(u64, usize)> {
        let chunk = self.tap.chunk;
        let is_next_open = self.open.last().is_some_and(|place| place % chunk == 0);
        if !is_next_open && self.begun < self.tap.chunks() {
            self.open.push(self.begun * chunk);
            self.begun += 1;
        }
        let times = self.open.iter().map(|&place| self.tap.time_ns(place));
        let written = times.zip(0..).filter(|&(ns, _)| ns != 0 && ns < until_ns);
        written.min()
    }

    pub fn take(&mut self, at: usize) -> TapRecord {
        let record = record(&self.tap.records, self.open[at] as usize);
        self.open[at] += 1;
        if self.open[at] % self.tap.chunk == 0 {
            self.open.remove(at);
        }
        record
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const CHUNK: u64 = 4;

    /// A tap that a test writes.
    pub struct Written {
        pub live: Live,
        next: std::collections::BTreeMap<u16, u64>,
    }

    impl Written {
        pub fn new(room: u64) -> Written {
            let records = Shared::private(room as usize * TAP_RECORD_BYTES);
            let counters = (Arc::new(Shared::private(8)), 0);
            Written {
                live: Live::new(Arc::new(records), counters, (CHUNK, room)),
                next: Default::default(),
            }
        }

        pub fn write(&mut self, record: TapRecord) {
            let next = self.next.entry(record.cpu).or_default();
            if *next % CHUNK == 0 {
                let chunks = self.live.counters.0.load(0);
                *next = chunks * CHUNK;
                self.live.counters.0.store(0, chunks as u32 + 1);
            }
            let at = *next as usize * TAP_RECORD_BYTES;
            *next += 1;
            let records = &self.live.records;
            records.write(at + 8, &record.sequence.to_ne_bytes());
            records.write(at + 12, &record.flow.to_ne_bytes());
            records.write(at + 14, &record.cpu.to_ne_bytes());
            records.write(at + 16, &record.check.to_ne_bytes());
            records.write(at + 24, &record.task.to_ne_bytes());
            records.write(at, &record.time_ns.to_ne_bytes());
        }
    }

    #[test]
    fn records_of_several_processors_come_in_the_order_of_time() {
        let mut tap = Written::new(1024);
        let mut follow = Follow::new(tap.live.clone());
        let mut seen = Vec::new();
        let mut expected = Vec::new();
        for number in 1..200u64 {
            let time_ns = number * 10;
            let cpu = [0, 0, 0, 1, 0, 2, 0, 1, 1][number as usize % 9];
            tap.write(TapRecord {
                time_ns,
                cpu,
                ..TapRecord::default()
            });
            expected.push((time_ns, cpu));
            if number % 37 == 0 {
                while let Some((ns, at)) = follow.next(time_ns - 100) {
                    assert!(ns < time_ns - 100);
                    let record = follow.take(at);
                    seen.push((record.time_ns, record.cpu));
                }
                assert!(!seen.is_empty());
            }
        }
        while let Some((_, at)) = follow.next(u64::MAX) {
            let record = follow.take(at);
            seen.push((record.time_ns, record.cpu));
        }
        assert_eq!(seen, expected);
        assert!(follow.open.len() <= 4);
    }
}
