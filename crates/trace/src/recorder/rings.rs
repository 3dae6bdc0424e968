//! The rings' memory: one a watched CPU, in which the kernel overwrites the oldest event.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use latlab_wire::trace::{EVENT_BYTES, Event};

use crate::sys::Shared;

/// `struct recorder_state`: two cache lines for each CPU, and the offset of its ring's number in them.
pub(super) const HEAD_BYTES: usize = 128;
const RING: usize = 40;

/// All rings, for a reader beside the kernel that writes.
#[derive(Clone)]
pub(super) struct Rings {
    pub cpus: Vec<u16>,
    /// Events that one holds: a power of two.
    pub size: u64,
    pub events: Arc<Shared>,
    pub state: Arc<Shared>,
}

impl Rings {
    /// Gives a CPU its ring, from 1 on, or takes it away.
    pub fn set(&self, cpu: u16, ring: u32) {
        self.state.store(usize::from(cpu) * HEAD_BYTES + RING, ring);
    }

    /// How many events were written into a ring.
    pub fn written(&self, ring: usize) -> u64 {
        self.state.load(usize::from(self.cpus[ring]) * HEAD_BYTES)
    }

    /// Empties a ring. Only while its CPU has none.
    pub fn empty(&self, ring: usize) {
        let head = usize::from(self.cpus[ring]) * HEAD_BYTES;
        self.state.store(head, 0);
        self.state.store(head + 4, 0);
    }

    /// The events of a range of records.
    pub fn told(&self, ring: usize, places: Range<u64>) -> impl Iterator<Item = Event> + '_ {
        let all = places.flat_map(move |place| Event::from_ring(&self.bytes(ring, place)));
        all.flatten().filter(|event| event.time_ns != 0)
    }

    fn bytes(&self, ring: usize, place: u64) -> [u8; EVENT_BYTES] {
        let at = ring * self.size as usize + (place % self.size) as usize;
        self.events.read(at * EVENT_BYTES)
    }

    /// Copies at most `count` records from `place` on, without those being written. `None` if they were
    /// overwritten, now or before.
    pub fn copy(
        &self,
        ring: usize,
        place: u64,
        count: u64,
        into: &mut Vec<[u8; EVENT_BYTES]>,
    ) -> bool {
        into.clear();
        into.extend((place..place + count).map(|place| self.bytes(ring, place)));
        // A place is reserved before it is written: if it is not reserved afterwards, the copy is whole.
        fence(Ordering::Acquire);
        self.written(ring) <= place + self.size
    }
}
