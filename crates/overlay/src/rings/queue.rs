//! The device's side of a split ring (virtio 1.2, 2.7).
//!
//! Values that the guest could change between check and use are read once and stored: addresses and size at setup, the
//! available index once per batch, each descriptor once. Used entries wait in a shadow and are published together, so
//! that the guest's CPU and ours do not contend for the cache line at every frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chain::{Chain, Direction};
use super::dirty::UsedLog;
use super::fault::Fault;
use super::layout::{self, DESCRIPTOR, Descriptor, ENTRIES, FLAGS, INDEX};
use super::memory::{Lookup, Memory};
use super::sys::{Area, barrier, prefetch, prefetch_write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub size: u16,
    /// The VMM's virtual addresses of the descriptor table, the available and the used ring.
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
    /// Notifications are requested by index (VIRTIO_F_EVENT_IDX).
    pub event_index: bool,
    /// Chains may be in indirect tables (VIRTIO_F_INDIRECT_DESC).
    pub indirect: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub available: u16,
    /// The used index that the guest sees.
    pub used: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("a ring of {0} entries")]
    Size(u32),
    #[error("the {0} are misaligned or outside the guest's memory")]
    Place(&'static str),
}

#[derive(Debug)]
pub struct Queue {
    size: u16,
    event_index: bool,
    indirect: bool,
    descriptors: Area,
    available: Area,
    used: Area,
    lookup: Lookup,
    /// The next available entry, and the available index.
    next: u16,
    seen: u16,
    /// The used index that the guest sees, and the entries that it does not see yet.
    published: u16,
    shadow: Vec<u64>,
    /// The used index up to which the guest was signalled, or did not want to be.
    signalled: u16,
    log: Option<UsedLog>,
    /// The available index at which the chains were too few for a frame, and their bytes.
    lack: Option<(u16, u64)>,
    /// Heads and first descriptors that were read ahead, from `ahead_from` on.
    ahead: Vec<(u16, Descriptor)>,
    ahead_from: u16,
}

const MAX_AHEAD: u16 = 32;
/// Bytes of a cache line, and of the longer virtio header.
const LINE: usize = 64;
const HEADER: usize = 12;

impl Queue {
    /// Sets a ring up; without a position, at the used index in the guest's memory: entries are used in order, so that is
    /// where the last device stopped, however it ended.
    pub fn new(
        setup: Setup,
        memory: Arc<Memory>,
        position: Option<Position>,
    ) -> Result<Queue, SetupError> {
        let size = setup.size;
        if !size.is_power_of_two() {
            return Err(SetupError::Size(size.into()));
        }
        let area =
            |what, user, len, align| memory.area(user, len, align).ok_or(SetupError::Place(what));
        let table = DESCRIPTOR * usize::from(size);
        let descriptors = area("descriptors", setup.descriptors, table, 16)?;
        let bytes = layout::available_bytes(size);
        let available = area("available entries", setup.available, bytes, 2)?;
        let used = area("used entries", setup.used, layout::used_bytes(size), 4)?;
        let position = position.unwrap_or_else(|| {
            let index = used.load_u16(INDEX, Ordering::Acquire);
            Position {
                available: index,
                used: index,
            }
        });
        let mut queue = Queue {
            size,
            event_index: setup.event_index,
            indirect: setup.indirect,
            descriptors,
            available,
            used,
            lookup: Lookup::new(memory),
            next: position.available,
            seen: position.available,
            published: position.used,
            shadow: Vec::with_capacity(usize::from(size)),
            signalled: position.used,
            log: None,
            lack: None,
            ahead: Vec::with_capacity(MAX_AHEAD.into()),
            ahead_from: position.available,
        };
        queue.disarm();
        Ok(queue)
    }

    /// Logs the used ring's pages for a migration from now on.
    pub fn set_log(&mut self, log: Option<UsedLog>) {
        self.log = log;
    }

    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            available: self.next,
            used: self.published,
        }
    }

    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        self.lookup.memory()
    }

    /// The number of waiting chains; reads the guest's index if none is known.
    #[inline]
    pub fn ready(&mut self) -> Result<u16, Fault> {
        match self.seen.wrapping_sub(self.next) {
            0 => self.look(),
            known => Ok(known),
        }
    }

    /// Reads the guest's index; returns the number of waiting chains.
    #[inline]
    pub fn look(&mut self) -> Result<u16, Fault> {
        // Acquire: entries and descriptors are read after the index.
        let index = self.available.load_u16(INDEX, Ordering::Acquire);
        let ready = index.wrapping_sub(self.next);
        // Chains that are taken and not yet used occupy entries too.
        if usize::from(ready) + self.shadow.len() > usize::from(self.size) {
            return Err(Fault::IndexJump);
        }
        self.seen = index;
        Ok(ready)
    }

    /// Reads the heads and first descriptors of known waiting chains, and prefetches their buffers, all at once. One after
    /// the other, each frame would wait for cache lines of the guest's CPU.
    #[inline]
    pub fn warm(&mut self, direction: Direction, chains: u16) {
        let table = self.descriptors.place();
        self.ahead.clear();
        self.ahead_from = self.next;
        let entry = ENTRIES + 8 * usize::from(self.published & (self.size - 1));
        prefetch_write(self.used.place().address().wrapping_add(entry));
        let known = self.seen.wrapping_sub(self.next);
        for ahead in 0..chains.min(known).min(MAX_AHEAD) {
            let head = self.head(self.next.wrapping_add(ahead));
            // `pop` reports invalid heads.
            if head >= self.size {
                return;
            }
            let first = Descriptor::new(table.load_descriptor(usize::from(head) * DESCRIPTOR));
            if let Some(start) = self.lookup.hint(first.address) {
                let second = start.wrapping_add(LINE);
                match direction {
                    Direction::FromGuest => {
                        prefetch(start);
                        prefetch(second);
                    }
                    Direction::ToGuest => {
                        // A header alone in its line is compared, and rarely written.
                        if start as usize % LINE >= LINE - HEADER {
                            prefetch(start);
                        } else {
                            prefetch_write(start);
                        }
                        prefetch_write(second);
                    }
                }
            }
            self.ahead.push((head, first));
        }
    }

    #[inline]
    fn head(&self, entry: u16) -> u16 {
        let at = ENTRIES + 2 * usize::from(entry & (self.size - 1));
        self.available.load_u16(at, Ordering::Relaxed)
    }

    /// The next chain's head and first descriptor; none if the head is outside the table.
    #[inline]
    fn first(&mut self) -> Option<(u16, Descriptor)> {
        let known = usize::from(self.next.wrapping_sub(self.ahead_from));
        if let Some(&first) = self.ahead.get(known) {
            return Some(first);
        }
        // Otherwise wrapped indexes would find it.
        self.ahead.clear();
        let head = self.head(self.next);
        let at = usize::from(head) * DESCRIPTOR;
        (head < self.size).then(|| {
            let table = self.descriptors.place();
            (head, Descriptor::new(table.load_descriptor(at)))
        })
    }

    /// Appends the next chain, which [`Queue::ready`] has announced, to `chain`; returns its head.
    #[inline]
    pub fn pop(&mut self, direction: Direction, chain: &mut Chain) -> Result<u16, Fault> {
        let (head, first) = self.first().ok_or(Fault::Index)?;
        let table = self.descriptors.place();
        chain.follow(
            first,
            table,
            self.size,
            self.indirect,
            direction,
            &mut self.lookup,
        )?;
        self.next = self.next.wrapping_add(1);
        Ok(head)
    }

    /// Stores that all waiting chains hold `bytes` together, so that later frames do not walk them again.
    #[cold]
    pub fn lacks(&mut self, bytes: u64) {
        self.lack = Some((self.seen, bytes));
    }

    /// Whether all chains that wait are known to hold less than `need` bytes.
    #[inline]
    pub fn is_known_to_lack(&mut self, need: u64) -> Result<bool, Fault> {
        match self.lack {
            None => Ok(false),
            Some(known) => self.still_lacks(need, known),
        }
    }

    #[cold]
    fn still_lacks(&mut self, need: u64, (seen, bytes): (u16, u64)) -> Result<bool, Fault> {
        self.look()?;
        if seen == self.seen && need > bytes {
            return Ok(true);
        }
        self.lack = None;
        Ok(false)
    }

    /// Returns the last `chains` unused.
    pub fn rewind(&mut self, chains: u16) {
        self.next = self.next.wrapping_sub(chains);
    }

    #[inline]
    pub fn push(&mut self, head: u16, written: u32) {
        self.shadow.push(u64::from(head) | u64::from(written) << 32);
    }

    pub fn publish(&mut self) {
        if self.shadow.is_empty() {
            return;
        }
        let mut index = self.published;
        for &entry in &self.shadow {
            let at = ENTRIES + 8 * usize::from(index & (self.size - 1));
            self.used.store_u64(at, entry);
            if let Some(log) = &self.log {
                log.written(at, 8);
            }
            index = index.wrapping_add(1);
        }
        self.shadow.clear();
        self.published = index;
        if let Some(log) = &self.log {
            log.written(INDEX, 2);
        }
        // Release: the guest sees entries and data before the index.
        self.used.store_u16(INDEX, index, Ordering::Release);
    }

    #[must_use]
    pub const fn has_unsignalled(&self) -> bool {
        self.signalled != self.published
    }

    /// Whether the guest wants an interrupt for the entries published since the last call.
    pub fn wants_interrupt(&mut self) -> bool {
        let (old, new) = (self.signalled, self.published);
        if old == new {
            return false;
        }
        self.signalled = new;
        // The index must be visible before the guest's event index is read, or both sides could sleep.
        barrier();
        if self.event_index {
            let at = ENTRIES + 2 * usize::from(self.size);
            let event = self.available.load_u16(at, Ordering::Relaxed);
            layout::passed(event, new, old)
        } else {
            let flags = self.available.load_u16(FLAGS, Ordering::Relaxed);
            flags & layout::NO_INTERRUPT == 0
        }
    }

    /// Requests a kick for the next chain. True if one is waiting already.
    pub fn arm(&mut self) -> Result<bool, Fault> {
        if self.event_index {
            let at = ENTRIES + 8 * usize::from(self.size);
            self.used.store_u16(at, self.next, Ordering::Relaxed);
        } else {
            self.used.store_u16(FLAGS, 0, Ordering::Relaxed);
        }
        // The request must be visible before the index is read.
        barrier();
        Ok(self.look()? > 0)
    }

    /// Suppresses kicks (the initial state). With event indexes the guest may still kick once per 65535 chains.
    pub fn disarm(&mut self) {
        if self.event_index {
            let at = ENTRIES + 8 * usize::from(self.size);
            let passed = self.next.wrapping_sub(1);
            self.used.store_u16(at, passed, Ordering::Relaxed);
        } else {
            self.used
                .store_u16(FLAGS, layout::NO_NOTIFY, Ordering::Relaxed);
        }
    }
}
