//! A split ring, the device's side (virtio 1.2, 2.7).
//!
//! All that the guest could change between a check and its use is read once and kept: ring addresses
//! and size when the ring is set up, the available index once per batch, each descriptor once. Used
//! entries wait in a shadow and are published together, so that the guest's processor and ours do not
//! fight for the cache line at every frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chain::{Chain, Direction};
use super::dirty::UsedLog;
use super::fault::Fault;
use super::layout::{self, DESCRIPTOR, Descriptor, ENTRIES, FLAGS, INDEX};
use super::memory::{Lookup, Memory};
use super::sys::{Area, barrier, prefetch, prefetch_write};

/// A ring as the monitor describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Entries, a power of two.
    pub size: u16,
    /// The monitor's virtual addresses of the descriptor table,
    pub descriptors: u64,
    /// the available ring
    pub available: u64,
    /// and the used ring.
    pub used: u64,
    /// The guest tells at which index it wants to be told (VIRTIO_F_EVENT_IDX).
    pub event_index: bool,
    /// Chains may lie in tables of their own (VIRTIO_F_INDIRECT_DESC).
    pub indirect: bool,
}

/// Where a ring goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The next available entry to take.
    pub available: u16,
    /// The used index that the guest sees.
    pub used: u16,
}

/// A ring that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Zero, too large or no power of two.
    #[error("a ring of {0} entries")]
    Size(u32),
    /// Not aligned, or not in the guest's memory.
    #[error("the {0} lie outside of the guest's memory, or askew")]
    Place(&'static str),
}

/// A ring at work.
#[derive(Debug)]
pub struct Queue {
    size: u16,
    event_index: bool,
    indirect: bool,
    descriptors: Area,
    available: Area,
    used: Area,
    lookup: Lookup,
    /// The next available entry to take, and the index up to which there are some.
    next: u16,
    seen: u16,
    /// The used index that the guest sees, and what it does not see yet.
    published: u16,
    shadow: Vec<u64>,
    /// The used index at which the guest was last asked whether it wants to be told.
    asked: u16,
    log: Option<UsedLog>,
    /// Up to which index the chains were once too few for a frame, and the bytes that they hold together.
    lack: Option<(u16, u64)>,
    /// Heads and first descriptors that were read already, from this available entry on.
    ahead: Vec<(u16, Descriptor)>,
    ahead_from: u16,
}

/// Most chains that are read ahead.
const AHEAD: u16 = 32;
/// Bytes of a cache line, and of the longer virtio header.
const LINE: usize = 64;
const HEADER: usize = 12;

impl Queue {
    /// Sets a ring up; without a position, where the used ring in the guest's memory says: entries are
    /// used in order, so that is where the last device stopped, however it ended.
    ///
    /// # Errors
    ///
    /// See [`SetupError`].
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
            asked: position.used,
            log: None,
            lack: None,
            ahead: Vec::with_capacity(AHEAD.into()),
            ahead_from: position.available,
        };
        queue.disarm();
        Ok(queue)
    }

    /// From now on the used ring's pages are noted in a migration's log too.
    pub fn set_log(&mut self, log: Option<UsedLog>) {
        self.log = log;
    }

    /// Where it stands.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            available: self.next,
            used: self.published,
        }
    }

    /// The guest's memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        self.lookup.memory()
    }

    /// How many chains wait, looking at the guest's index when none is known to.
    ///
    /// # Errors
    ///
    /// An index that jumped.
    #[inline]
    pub fn ready(&mut self) -> Result<u16, Fault> {
        match self.seen.wrapping_sub(self.next) {
            0 => self.look(),
            known => Ok(known),
        }
    }

    /// How many chains wait now.
    ///
    /// # Errors
    ///
    /// An index that jumped.
    #[inline]
    pub fn look(&mut self) -> Result<u16, Fault> {
        // What the guest wrote before it advanced the index is read after.
        let index = self.available.load_u16(INDEX, Ordering::Acquire);
        let ready = index.wrapping_sub(self.next);
        // Those taken and not yet given back take up entries too.
        if usize::from(ready) + self.shadow.len() > usize::from(self.size) {
            return Err(Fault::IndexJump);
        }
        self.seen = index;
        Ok(ready)
    }

    /// Reads the next chains' heads and first descriptors, and fetches the beginnings of their buffers
    /// into the cache, all at once: one after the other, each frame would wait for lines that the guest's
    /// processor has. At most those that are known to wait.
    #[inline]
    pub fn warm(&mut self, direction: Direction, chains: u16) {
        let table = self.descriptors.place();
        self.ahead.clear();
        self.ahead_from = self.next;
        let entry = ENTRIES + 8 * usize::from(self.published & (self.size - 1));
        prefetch_write(self.used.place().address().wrapping_add(entry));
        let known = self.seen.wrapping_sub(self.next);
        for ahead in 0..chains.min(known).min(AHEAD) {
            let head = self.head(self.next.wrapping_add(ahead));
            // A head that cannot be is for `pop` to find.
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
                        // A header alone in its line is compared, and mostly not written.
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

    /// The head in an available entry.
    #[inline]
    fn head(&self, entry: u16) -> u16 {
        let at = ENTRIES + 2 * usize::from(entry & (self.size - 1));
        self.available.load_u16(at, Ordering::Relaxed)
    }

    /// The next chain's head and first descriptor; none where the head is outside of the table.
    #[inline]
    fn first(&mut self) -> Option<(u16, Descriptor)> {
        let known = usize::from(self.next.wrapping_sub(self.ahead_from));
        if let Some(&first) = self.ahead.get(known) {
            return Some(first);
        }
        // Or indexes that come round again would find it.
        self.ahead.clear();
        let head = self.head(self.next);
        let at = usize::from(head) * DESCRIPTOR;
        (head < self.size).then(|| {
            let table = self.descriptors.place();
            (head, Descriptor::new(table.load_descriptor(at)))
        })
    }

    /// Takes the next chain, appended to `chain`; [`Queue::ready`] has said that there is one. Returns
    /// its head, by which it is given back.
    ///
    /// # Errors
    ///
    /// A chain that cannot be.
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

    /// All that wait hold `bytes` together: the next frame need not walk them to find that out again, and
    /// the one after it.
    #[cold]
    pub fn lacks(&mut self, bytes: u64) {
        self.lack = Some((self.seen, bytes));
    }

    /// Whether all chains that wait are known to hold less than `need` bytes.
    ///
    /// # Errors
    ///
    /// An index that jumped.
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

    /// Gives the last `chains` back unused, as if they had not been taken.
    pub fn rewind(&mut self, chains: u16) {
        self.next = self.next.wrapping_sub(chains);
    }

    /// Notes a chain as used, with the bytes written to it.
    #[inline]
    pub fn push(&mut self, head: u16, written: u32) {
        self.shadow.push(u64::from(head) | u64::from(written) << 32);
    }

    /// Shows the guest all that is used.
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
        // What was written before, the guest sees before it sees the index.
        self.used.store_u16(INDEX, index, Ordering::Release);
    }

    /// Whether something was published since the guest was last asked whether it wants to be told.
    #[must_use]
    pub const fn owes(&self) -> bool {
        self.asked != self.published
    }

    /// Whether the guest wants to be told of what was published since it was last asked.
    pub fn wants_interrupt(&mut self) -> bool {
        let (old, new) = (self.asked, self.published);
        if old == new {
            return false;
        }
        self.asked = new;
        // The index must be out before the guest's wish is read: else both sides go to sleep.
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

    /// Asks for a kick at the next chain. True when one is there already.
    ///
    /// # Errors
    ///
    /// An index that jumped.
    pub fn arm(&mut self) -> Result<bool, Fault> {
        if self.event_index {
            let at = ENTRIES + 8 * usize::from(self.size);
            self.used.store_u16(at, self.next, Ordering::Relaxed);
        } else {
            self.used.store_u16(FLAGS, 0, Ordering::Relaxed);
        }
        // The wish must be out before the index is read.
        barrier();
        Ok(self.look()? > 0)
    }

    /// No kicks, please: as every ring begins. With event indexes a wish can only be left behind, where
    /// the guest comes round again after 65535 chains.
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
