//! Frames that wait while their destination moves.
//!
//! A hold is a part of the table, so a switch without one pays a branch for it. Each address has a queue of its own,
//! which all dispatchers share, so frames leave in the order in which they came. A later frame to the address joins the
//! queue until the last of those before it has been sent. Only frames that wait meet the queue's lock.
//!
//! A hold may be armed instead: frames pass until the rings of a port are stopped. The sender finds that out with the
//! ring in its hands, so no frame falls between the stop and the hold. Frames that were decided before the stop and
//! those after it meet there, in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::address::{Address, address as number, mac};
use crate::endpoints::port_id::PortId;
use crate::frames::{Batch, Frame, FrameCopy};
use crate::sync::lock;

/// How long a port that takes no frame delays the release of those for it, in ns.
const STALL_TIMEOUT: u64 = 500_000_000;
/// How long a port that takes frames more slowly than others come does: its queue would never be empty.
const SLOW_TIMEOUT: u64 = 2_000_000_000;

/// Memory that the addresses of one command share.
#[derive(Debug)]
pub struct HoldBudget {
    limit: u64,
    used: AtomicU64,
}

impl HoldBudget {
    #[must_use]
    pub const fn new(limit: u64) -> HoldBudget {
        HoldBudget {
            limit,
            used: AtomicU64::new(0),
        }
    }

    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    fn reserve(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(success, failure, more).is_ok()
    }

    fn free(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Frames of a network that waited, and those that did not fit or whose port was closed meanwhile.
#[derive(Debug, Default)]
pub struct HeldCounters {
    pub held: AtomicU64,
    pub dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<FrameCopy>,
    /// No frame waits any more.
    is_over: bool,
}

/// The hold of one address.
#[derive(Debug)]
pub struct Hold {
    address: Address,
    budget: Arc<HoldBudget>,
    /// The port whose stop begins it. Without one it has begun.
    port: Option<PortId>,
    /// Whether its port is not asked any more; the hold has begun then.
    is_detached: AtomicBool,
    /// How long it lasts, in ns.
    time: u64,
    /// When it ends, on the clock that dispatchers share, in ns; [`UNBEGUN`] before it begins.
    ends: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Its holder releases, one at a time.
    releasing: Mutex<Release>,
    is_over: AtomicBool,
}

/// The end of a hold that has not begun.
const UNBEGUN: u64 = u64::MAX;

/// The progress of a release.
#[derive(Debug, Default)]
pub struct Release {
    /// When the first frame found no room, if none was sent since then.
    stalled: Option<u64>,
    /// When the first frame of all found none.
    slow: Option<u64>,
}

impl Release {
    /// Whether a frame that finds no room is to wait for some.
    pub fn waits(&mut self, now: u64) -> bool {
        let stalled = *self.stalled.get_or_insert(now);
        let slow = *self.slow.get_or_insert(now);
        let is_within = |since: u64, timeout| now.saturating_sub(since) < timeout;
        is_within(stalled, STALL_TIMEOUT) && is_within(slow, SLOW_TIMEOUT)
    }

    pub fn progresses(&mut self) {
        self.stalled = None;
    }
}

/// The fate of a frame for a held address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Waits,
    /// There is no memory left for it.
    Dropped,
    /// The hold is over: the frame is sent as usual.
    Over,
}

impl Hold {
    /// One that begins with the stop of `port`.
    #[must_use]
    pub fn armed(address: [u8; 6], budget: Arc<HoldBudget>, time: u64, port: PortId) -> Hold {
        Hold {
            port: Some(port),
            ends: AtomicU64::new(UNBEGUN),
            ..Hold::begun(address, budget, time, 0)
        }
    }

    /// One that begins at once.
    #[must_use]
    pub fn begun(address: [u8; 6], budget: Arc<HoldBudget>, time: u64, now: u64) -> Hold {
        Hold {
            address: number(address),
            budget,
            port: None,
            is_detached: AtomicBool::new(false),
            time,
            ends: AtomicU64::new(now.saturating_add(time).min(UNBEGUN - 1)),
            waiting: Mutex::default(),
            releasing: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) const fn address(&self) -> Address {
        self.address
    }

    #[must_use]
    pub const fn mac(&self) -> [u8; 6] {
        mac(self.address)
    }

    #[must_use]
    pub const fn budget(&self) -> &Arc<HoldBudget> {
        &self.budget
    }

    #[must_use]
    pub fn ends(&self) -> u64 {
        self.ends.load(Ordering::Relaxed)
    }

    /// The time that it has left, in ns.
    #[must_use]
    pub fn left(&self, now: u64) -> u64 {
        if self.has_begun() {
            self.ends().saturating_sub(now)
        } else {
            self.time
        }
    }

    /// The port whose stop begins it and whose start ends it.
    #[must_use]
    pub fn port(&self) -> Option<PortId> {
        let is_asked = !self.is_detached.load(Ordering::Relaxed);
        self.port.filter(|_| is_asked)
    }

    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.ends() != UNBEGUN
    }

    /// Its port stands still.
    pub fn begin(&self, now: u64) {
        let ends = now.saturating_add(self.time).min(UNBEGUN - 1);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.ends.compare_exchange(UNBEGUN, ends, success, failure);
    }

    /// Makes it one without a port, for tables from now on.
    pub fn detach(&self, now: u64) {
        self.begin(now);
        self.is_detached.store(true, Ordering::Relaxed);
    }

    /// Ends it with the dispatchers' next look.
    pub fn end(&self) {
        self.ends.store(0, Ordering::Relaxed);
    }

    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.ends()
    }

    /// Whether every frame that waited has been sent.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Frames that wait, and their memory.
    #[must_use]
    pub fn waiting(&self) -> (usize, u64) {
        let waiting = lock(&self.waiting);
        let bytes = waiting.frames.iter().map(FrameCopy::memory).sum();
        (waiting.frames.len(), bytes)
    }

    /// Lets a frame of the network with this VNI wait.
    pub fn take_in(
        &self,
        batch: &Batch,
        frame: &Frame,
        network: u32,
        counters: &HeldCounters,
    ) -> Held {
        let bytes = FrameCopy::memory_of(frame);
        if !self.budget.reserve(bytes) {
            if self.is_over() {
                return Held::Over;
            }
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            return Held::Dropped;
        }
        let copy = FrameCopy::of(batch, frame, network);
        let mut waiting = lock(&self.waiting);
        if waiting.is_over {
            self.budget.free(bytes);
            return Held::Over;
        }
        waiting.frames.push_back(copy);
        counters.held.fetch_add(1, Ordering::Relaxed);
        Held::Waits
    }

    /// Begins a step of the release; other dispatchers wait with theirs.
    pub fn release(&self) -> MutexGuard<'_, Release> {
        lock(&self.releasing)
    }

    /// The oldest frames, at most `most`; only for the dispatcher that releases.
    #[must_use]
    pub fn take_out(&self, most: usize) -> Vec<FrameCopy> {
        let mut waiting = lock(&self.waiting);
        let most = most.min(waiting.frames.len());
        let taken: Vec<FrameCopy> = waiting.frames.drain(..most).collect();
        drop(waiting);
        self.budget.free(taken.iter().map(FrameCopy::memory).sum());
        taken
    }

    /// Puts back frames that could not be sent yet, before all others. They may exceed the budget for a moment, by one
    /// batch.
    pub fn put_back(&self, frames: Vec<FrameCopy>) {
        let bytes: u64 = frames.iter().map(FrameCopy::memory).sum();
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        let mut waiting = lock(&self.waiting);
        for frame in frames.into_iter().rev() {
            waiting.frames.push_front(frame);
        }
    }

    /// Ends it for good if no frame waits; true if so. Everything taken out has been sent.
    pub fn finish(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        if !waiting.frames.is_empty() {
            return false;
        }
        waiting.is_over = true;
        // Release: a dispatcher that sees this sends later than all that waited.
        self.is_over.store(true, Ordering::Release);
        true
    }

    /// Drops the frames that came in at a port which is closed: its number may become another's. Returns their networks.
    fn forget(&self, port: PortId) -> Vec<u32> {
        // None is being released meanwhile.
        let _release = self.release();
        let (mut networks, mut bytes) = (Vec::new(), 0);
        lock(&self.waiting).frames.retain(|frame| {
            let stays = frame.ingress() != port;
            if !stays {
                networks.push(frame.network());
                bytes += frame.memory();
            }
            stays
        });
        self.budget.free(bytes);
        networks
    }
}

/// All holds and the counters of all networks, as a table takes them.
#[derive(Debug, Default)]
pub struct Holds {
    pub holds: Vec<Arc<Hold>>,
    /// By VNI; a network keeps its counters.
    counters: BTreeMap<u32, Arc<HeldCounters>>,
}

impl Holds {
    pub fn counters(&mut self, vni: u32) -> Arc<HeldCounters> {
        Arc::clone(self.counters.entry(vni).or_default())
    }

    /// Drops and counts the frames that came in at a port which is closed, and ends the holds that wait for its stop.
    pub fn forget(&mut self, port: PortId) {
        for hold in self.holds.iter().filter(|hold| hold.port() == Some(port)) {
            hold.end();
        }
        let gone: Vec<u32> = self
            .holds
            .iter()
            .flat_map(|hold| hold.forget(port))
            .collect();
        for vni in gone {
            self.counters(vni).dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Frames that waited and that were dropped, of a network.
    #[must_use]
    pub fn counts(&self, vni: u32) -> (u64, u64) {
        let counters = self.counters.get(&vni);
        counters.map_or((0, 0), |counters| {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (read(&counters.held), read(&counters.dropped))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_release_waits_for_a_port_that_is_full_but_not_for_one_that_is_always_full() {
        let mut release = Release::default();
        assert!(release.waits(0) && release.waits(499 * MS));
        assert!(!release.waits(500 * MS));
        let mut release = Release::default();
        // A frame leaves now and then, as fast as another comes.
        for now in 0..2_000 {
            assert!(release.waits(now * MS), "{now} ms");
            release.progresses();
        }
        assert!(!release.waits(2_000 * MS));
    }
}
