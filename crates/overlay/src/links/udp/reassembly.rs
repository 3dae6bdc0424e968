//! Reassembly of sliced frames, bounded in number, bytes and time.
//!
//! Most frames do not need it: if one call received all slices in order, the frame is borrowed in place. Slices that are
//! late, reordered or after a gap are copied.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use latlab_wire::overlay::{MAX_FRAME_BYTES, MAX_SLICES, PrivateHeader};

use crate::frames::Segment;
use crate::links::sys::Buffer;

/// Maximum number of incomplete frames of all peers; each takes 64 KiB.
const MAX_FRAMES: usize = 32;
const MAX_OF_ADDRESS: usize = 8;
/// Timeout of a frame. Its slices leave in one call.
const TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Partial {
    from: SocketAddr,
    header: PrivateHeader,
    began: Instant,
    received: Vec<(usize, usize)>,
    buffer: Buffer,
}

#[derive(Debug)]
pub enum Outcome {
    Waiting,
    /// The frame is complete. Its memory stays unchanged until [`Reassembly::complete`].
    Whole(PrivateHeader, Segment),
    /// The slice overlaps others, or belongs to a frame of another length.
    Refused,
}

#[derive(Debug, Default)]
pub struct Reassembly {
    entries: Vec<Partial>,
    delivered: Vec<Buffer>,
    free: Vec<Buffer>,
}

impl Reassembly {
    /// Adds a slice. Calls `lost` with the sender of every frame that is evicted for it.
    pub fn add(
        &mut self,
        from: SocketAddr,
        header: &PrivateHeader,
        slice: &[u8],
        now: Instant,
        mut lost: impl FnMut(SocketAddr),
    ) -> Outcome {
        let found = self
            .entries
            .iter()
            .position(|entry| entry.from == from && entry.header.number == header.number);
        let at = match found {
            Some(at) => at,
            None => {
                self.make_room(from, now, &mut lost);
                self.entries.push(Partial {
                    from,
                    header: *header,
                    began: now,
                    received: Vec::new(),
                    buffer: self
                        .free
                        .pop()
                        .unwrap_or_else(|| Buffer::new(MAX_FRAME_BYTES)),
                });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[at];
        let start = header.offset as usize;
        let end = start + slice.len();
        let expected = PrivateHeader {
            offset: header.offset,
            hops: header.hops,
            ..entry.header
        };
        if *header != expected || !add_range(&mut entry.received, start, end) {
            return Outcome::Refused;
        }
        entry.buffer.part_mut(start..end).copy_from_slice(slice);
        let whole = header.whole as usize;
        if entry.received != [(0, whole)] {
            return Outcome::Waiting;
        }
        let entry = self.entries.swap_remove(at);
        let segment = entry.buffer.segment(0..whole);
        self.delivered.push(entry.buffer);
        Outcome::Whole(entry.header, segment)
    }

    /// Delivered frames have been sent or dropped.
    pub fn complete(&mut self) {
        self.free.append(&mut self.delivered);
        self.free.truncate(MAX_FRAMES);
    }

    pub fn expire(&mut self, now: Instant, mut lost: impl FnMut(SocketAddr)) {
        let mut at = 0;
        while at < self.entries.len() {
            if now.duration_since(self.entries[at].began) >= TIMEOUT {
                self.evict(at, &mut lost);
            } else {
                at += 1;
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self, from: SocketAddr, now: Instant, lost: &mut impl FnMut(SocketAddr)) {
        self.expire(now, &mut *lost);
        let of_one = self.entries.iter().filter(|entry| entry.from == from);
        let oldest = if of_one.count() >= MAX_OF_ADDRESS {
            self.oldest(|entry| entry.from == from)
        } else if self.entries.len() >= MAX_FRAMES {
            self.oldest(|_| true)
        } else {
            None
        };
        if let Some(at) = oldest {
            self.evict(at, lost);
        }
    }

    fn oldest(&self, which: impl Fn(&Partial) -> bool) -> Option<usize> {
        let of_those = (0..self.entries.len()).filter(|at| which(&self.entries[*at]));
        of_those.min_by_key(|at| self.entries[*at].began)
    }

    fn evict(&mut self, at: usize, lost: &mut impl FnMut(SocketAddr)) {
        let entry = self.entries.swap_remove(at);
        lost(entry.from);
        self.free.push(entry.buffer);
    }
}

/// Adds a range; false if it overlaps others, or there are too many.
fn add_range(received: &mut Vec<(usize, usize)>, start: usize, end: usize) -> bool {
    let at = received.partition_point(|range| range.1 < start);
    // `at` is the first range that ends at or behind the start.
    let touches_before = received.get(at).is_some_and(|range| range.1 == start);
    let next = if touches_before { at + 1 } else { at };
    let touches_behind = match received.get(next) {
        Some(range) if range.0 < end => return false,
        Some(range) => range.0 == end,
        None => false,
    };
    match (touches_before, touches_behind) {
        (true, true) => {
            received[at].1 = received[next].1;
            received.remove(next);
        }
        (true, false) => received[at].1 = end,
        (false, true) => received[at].0 = start,
        (false, false) if received.len() >= MAX_SLICES => return false,
        (false, false) => received.insert(at, (start, end)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::random::Random;

    fn sender(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn header(number: u32, whole: usize, offset: usize) -> PrivateHeader {
        PrivateHeader {
            hops: 1,
            network: 1,
            origin: 2,
            number,
            whole: u32::try_from(whole).unwrap(),
            offset: u32::try_from(offset).unwrap(),
            offload: [0; 10],
        }
    }

    #[test]
    fn the_last_slice_completes_a_frame_in_any_order() {
        let mut random = Random(99);
        let mut reassembly = Reassembly::default();
        let now = Instant::now();
        for number in 0..200 {
            let whole: usize = 100 + random.below(65_000) as usize;
            let frame = random.bytes(whole);
            let each = whole.div_ceil(1 + random.below(100) as usize);
            let mut starts: Vec<usize> = (0..whole).step_by(each).collect();
            for at in (1..starts.len()).rev() {
                starts.swap(at, random.below(at as u64 + 1) as usize);
            }
            let count = starts.len();
            for (nth, start) in starts.into_iter().enumerate() {
                let slice = &frame[start..(start + each).min(whole)];
                let header = header(number, whole, start);
                let outcome = reassembly.add(sender(1), &header, slice, now, |_| panic!());
                match outcome {
                    Outcome::Whole(_, segment) if nth + 1 == count => {
                        let mut got = vec![0; segment.len()];
                        segment.copy_to(&mut got);
                        assert_eq!(got, frame);
                    }
                    Outcome::Waiting if nth + 1 < count => {}
                    other => panic!("{other:?}"),
                }
            }
            reassembly.complete();
        }
        assert!(reassembly.is_empty());
    }

    #[test]
    fn overlapping_slices_are_refused_and_change_nothing() {
        let mut reassembly = Reassembly::default();
        let now = Instant::now();
        let mut add = |offset: usize, bytes: &[u8]| {
            reassembly.add(sender(1), &header(1, 300, offset), bytes, now, |_| ())
        };
        assert!(matches!(add(100, &[1; 100]), Outcome::Waiting));
        for (offset, len) in [(100, 100), (50, 51), (199, 50), (120, 10), (0, 300)] {
            let outcome = add(offset, &vec![9; len]);
            assert!(matches!(outcome, Outcome::Refused), "{offset} {len}");
        }
        assert!(matches!(add(200, &[2; 100]), Outcome::Waiting));
        let Outcome::Whole(_, segment) = add(0, &[0; 100]) else {
            panic!("not whole")
        };
        let mut got = [9; 300];
        segment.copy_to(&mut got);
        assert_eq!((got[99], got[100], got[199], got[200]), (0, 1, 1, 2));
    }

    #[test]
    fn slices_of_frames_that_disagree_are_refused() {
        let mut reassembly = Reassembly::default();
        let now = Instant::now();
        reassembly.add(sender(1), &header(1, 300, 0), &[0; 100], now, |_| ());
        let outcome = reassembly.add(sender(1), &header(1, 400, 100), &[0; 100], now, |_| ());
        assert!(matches!(outcome, Outcome::Refused));
    }

    #[test]
    fn incomplete_frames_are_evicted_by_number_and_by_time() {
        let mut reassembly = Reassembly::default();
        let now = Instant::now();
        let mut lost = 0;
        for number in 0..1000 {
            reassembly.add(sender(1), &header(number, 300, 0), &[0; 100], now, |_| {
                lost += 1;
            });
        }
        assert_eq!(lost, 1000 - MAX_OF_ADDRESS);
        for port in 2..1002 {
            reassembly.add(sender(port), &header(0, 300, 0), &[0; 100], now, |_| {
                lost += 1;
            });
        }
        assert_eq!(lost, 2000 - MAX_FRAMES);
        let later = now + TIMEOUT;
        reassembly.expire(later, |_| lost += 1);
        assert_eq!(lost, 2000);
        assert!(reassembly.is_empty() && reassembly.free.len() <= MAX_FRAMES);
    }
}
