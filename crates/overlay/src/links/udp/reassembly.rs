//! Frames that come in slices, put together again: bounded in number, bytes and time.
//!
//! Most never come here: when all slices of a frame were received by one call, in order, the frame is
//! borrowed from where they lie. What comes late, in another order or with a gap is copied.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use latlab_wire::overlay::{Carried, MAX_FRAME_BYTES, MAX_SLICES};

use crate::frames::Segment;
use crate::links::sys::Buffer;

/// Frames under way from all peers together; each takes 64 KiB.
const MOST: usize = 32;
/// Frames under way from one address.
const MOST_OF_ONE: usize = 8;
/// How long the slices of a frame may take. They leave in one call.
const PATIENCE: Duration = Duration::from_millis(200);

/// A frame of which some slices are there.
#[derive(Debug)]
struct Entry {
    from: SocketAddr,
    header: Carried,
    began: Instant,
    /// What is there: stretches in order that neither overlap nor touch.
    there: Vec<(usize, usize)>,
    buffer: Buffer,
}

/// What a slice led to.
#[derive(Debug)]
pub enum Outcome {
    /// Others are awaited.
    Waiting,
    /// It was the last. The memory stays as it is until [`Reassembly::complete`].
    Whole(Carried, Segment),
    /// It contradicts what is there: overlaps it, or belongs to a frame of another length.
    Refused,
}

/// Frames under way to one receiver.
#[derive(Debug, Default)]
pub struct Reassembly {
    entries: Vec<Entry>,
    delivered: Vec<Buffer>,
    free: Vec<Buffer>,
}

impl Reassembly {
    /// Takes a slice. `lost` is told of the sender of every frame that is given up for it.
    pub fn add(
        &mut self,
        from: SocketAddr,
        header: &Carried,
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
                self.entries.push(Entry {
                    from,
                    header: *header,
                    began: now,
                    there: Vec::new(),
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
        let same = Carried {
            offset: 0,
            hops: 0,
            ..*header
        } == Carried {
            offset: 0,
            hops: 0,
            ..entry.header
        };
        if !same || !note(&mut entry.there, start, end) {
            return Outcome::Refused;
        }
        entry.buffer.part_mut(start..end).copy_from_slice(slice);
        let whole = header.whole as usize;
        if entry.there != [(0, whole)] {
            return Outcome::Waiting;
        }
        let entry = self.entries.swap_remove(at);
        let segment = entry.buffer.segment(0..whole);
        self.delivered.push(entry.buffer);
        Outcome::Whole(entry.header, segment)
    }

    /// Frames delivered have been sent or dropped.
    pub fn complete(&mut self) {
        self.free.append(&mut self.delivered);
        self.free.truncate(MOST);
    }

    /// Gives up what has waited too long.
    pub fn expire(&mut self, now: Instant, mut lost: impl FnMut(SocketAddr)) {
        let mut at = 0;
        while at < self.entries.len() {
            if now.duration_since(self.entries[at].began) >= PATIENCE {
                self.give_up(at, &mut lost);
            } else {
                at += 1;
            }
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self, from: SocketAddr, now: Instant, lost: &mut impl FnMut(SocketAddr)) {
        self.expire(now, &mut *lost);
        let of_one = self.entries.iter().filter(|entry| entry.from == from);
        let oldest = if of_one.count() >= MOST_OF_ONE {
            self.oldest(|entry| entry.from == from)
        } else if self.entries.len() >= MOST {
            self.oldest(|_| true)
        } else {
            None
        };
        if let Some(at) = oldest {
            self.give_up(at, lost);
        }
    }

    fn oldest(&self, which: impl Fn(&Entry) -> bool) -> Option<usize> {
        let of_those = (0..self.entries.len()).filter(|at| which(&self.entries[*at]));
        of_those.min_by_key(|at| self.entries[*at].began)
    }

    fn give_up(&mut self, at: usize, lost: &mut impl FnMut(SocketAddr)) {
        let entry = self.entries.swap_remove(at);
        lost(entry.from);
        self.free.push(entry.buffer);
    }
}

/// Adds a stretch; false when something of it is there already, or it would be one too many.
fn note(there: &mut Vec<(usize, usize)>, start: usize, end: usize) -> bool {
    let at = there.partition_point(|stretch| stretch.1 < start);
    // `at` is the first that ends at or behind the start.
    let touches_before = there.get(at).is_some_and(|stretch| stretch.1 == start);
    let next = if touches_before { at + 1 } else { at };
    let touches_behind = match there.get(next) {
        Some(stretch) if stretch.0 < end => return false,
        Some(stretch) => stretch.0 == end,
        None => false,
    };
    match (touches_before, touches_behind) {
        (true, true) => {
            there[at].1 = there[next].1;
            there.remove(next);
        }
        (true, false) => there[at].1 = end,
        (false, true) => there[at].0 = start,
        (false, false) if there.len() >= MAX_SLICES => return false,
        (false, false) => there.insert(at, (start, end)),
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

    fn header(number: u32, whole: usize, offset: usize) -> Carried {
        Carried {
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
    fn in_any_order_the_frame_is_whole_with_its_last_slice() {
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
    fn what_overlaps_is_refused_and_what_was_there_stays() {
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
    fn frames_that_never_end_are_given_up_by_number_and_by_time() {
        let mut reassembly = Reassembly::default();
        let now = Instant::now();
        let mut lost = 0;
        for number in 0..1000 {
            reassembly.add(sender(1), &header(number, 300, 0), &[0; 100], now, |_| {
                lost += 1;
            });
        }
        assert_eq!(lost, 1000 - MOST_OF_ONE);
        for port in 2..1002 {
            reassembly.add(sender(port), &header(0, 300, 0), &[0; 100], now, |_| {
                lost += 1;
            });
        }
        assert_eq!(lost, 2000 - MOST);
        let later = now + PATIENCE;
        reassembly.expire(later, |_| lost += 1);
        assert_eq!(lost, 2000);
        assert!(reassembly.is_empty() && reassembly.free.len() <= MOST);
    }
}
