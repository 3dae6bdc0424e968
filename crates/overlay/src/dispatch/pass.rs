//! One pass: a batch, from receiving to sending.

use std::sync::Arc;

use super::forwarder::{BATCH, Forwarder};
use super::port_state::BUDGET;
use super::snapshot::Snapshot;
use crate::endpoints::Receive;
use crate::forwarding::{Decider, Hold, Learned};
use crate::frames::{Batch, CopyBatch};

/// Frames that waited and are sent in one step: twice as many as a batch may add, so that a flood does not prolong a
/// release for ever, and few enough that no port waits long for its turn.
const RELEASE_STEP: usize = 2 * BATCH;

/// Interval of looks at a receiver that has no room for what waited, in ns.
const RETRY: u64 = 50_000;

pub(super) struct Pass {
    forwarder: Forwarder,
    batch: Batch,
    /// Frames that waited; none before the first hold.
    released: Option<CopyBatch>,
    /// The last step ended for want of room.
    is_stalled: bool,
}

impl Pass {
    pub fn new(snapshot: Arc<Snapshot>, learned: Arc<Learned>, seed: u64) -> Pass {
        Pass {
            forwarder: Forwarder::new(snapshot, learned, seed),
            batch: Batch::new(BATCH),
            released: None,
            is_stalled: false,
        }
    }

    pub fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.forwarder.install(snapshot);
    }

    pub const fn decider(&mut self) -> &mut Decider {
        &mut self.forwarder.decider
    }

    /// Forwards at most one batch from an input; returns the number of frames.
    pub fn run(&mut self, input: &mut dyn Receive, now: u64) -> usize {
        self.batch.clear();
        let received = input.receive(&mut self.batch);
        if received > 0 {
            self.forwarder.decide(&mut self.batch, now);
            self.forwarder.send(&self.batch, None);
        }
        input.complete();
        if self.is_holding() {
            self.release(now);
        }
        received
    }

    /// Forwards batches until the input is empty or its budget is used up; returns the number of frames, and whether the
    /// input is empty.
    pub fn drain(&mut self, input: &mut dyn Receive, now: u64) -> (u64, bool) {
        let mut received = 0;
        loop {
            let frames = self.run(input, now) as u64;
            received += frames;
            if frames == 0 || received >= BUDGET {
                return (received, frames == 0);
            }
        }
    }

    /// Whether frames wait, or may have to.
    pub const fn is_holding(&self) -> bool {
        self.forwarder.decider.is_holding()
    }

    /// Time until the next hold ends, in ns.
    pub fn until_release(&self, now: u64) -> Option<u64> {
        if !self.is_holding() {
            return None;
        }
        let table = self.forwarder.decider.table();
        let begun = table.holds().filter(|hold| hold.has_begun());
        let held = begun.filter(|hold| !hold.is_over());
        let ends = held.map(|hold| hold.ends().saturating_sub(now)).min()?;
        Some(if ends == 0 && self.is_stalled {
            RETRY
        } else {
            ends
        })
    }

    /// Sends some of the frames whose hold has ended.
    #[cold]
    pub fn release(&mut self, now: u64) {
        let table = Arc::clone(self.forwarder.decider.table());
        let mut left = RELEASE_STEP;
        self.is_stalled = false;
        self.forwarder.decider.begin(now);
        for (port, hold) in table.armed() {
            let waits = hold.has_begun() && hold.port().is_some() && !hold.is_due(now);
            if waits && self.forwarder.runs(port) {
                hold.end();
            }
        }
        for hold in table.holds() {
            if left > 0 && hold.is_due(now) && !hold.is_over() {
                left -= self.release_one(hold, left, now);
            }
        }
        self.forwarder.decider.end_holds();
    }

    /// Sends at most `most` of the frames that wait in a hold; returns their number.
    fn release_one(&mut self, hold: &Hold, most: usize, now: u64) -> usize {
        // One dispatcher at a time, for a batch: else frames would overtake each other.
        let mut progress = hold.release();
        let released = self.released.get_or_insert_with(|| CopyBatch::new(BATCH));
        let mut sent = 0;
        while sent < most {
            let copies = hold.take_out(BATCH.min(most - sent));
            if copies.is_empty() {
                hold.finish();
                break;
            }
            released.fill(copies.into_iter());
            let batch = released.batch();
            let (frames, mut at, mut room) = (batch.frames().len(), 0, None);
            while at < frames {
                let may_wait = progress.waits(now);
                if !self
                    .forwarder
                    .decide_released(batch, at, &mut room, may_wait)
                {
                    break;
                }
                // Without room for half a second, the rest is not waited for either.
                if may_wait {
                    progress.progresses();
                }
                at += 1;
            }
            self.forwarder.send(batch, Some(hold));
            hold.put_back(released.take_from(at));
            sent += at;
            if at < frames {
                self.is_stalled = true;
                break;
            }
        }
        sent
    }
}
