//! Ownership of a ring between passes, and its stop.
//!
//! A dispatcher checks a ring out while it uses the ring or frames in the guest's memory, and returns it. A thread that
//! changes a ring (memory, addresses) requests it, and has it once it is returned: stop command and acknowledgement in
//! one. That also works while no dispatcher polls the port.
//!
//! Each way costs one atomic exchange, and only the thread that stops a ring blocks. A polling dispatcher keeps the ring
//! and checks a flag.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sys::{Handover, Taken};
use crate::sync::lock;

/// Maximum number of exchanges that are waited for.
const MAX_CHANGES: u32 = 8;

/// A `T` that one thread at a time may check out.
#[derive(Debug)]
pub struct Slot<T> {
    place: Handover<T>,
    /// Whether a thread waits to stop it.
    wanted: AtomicBool,
    stopping: Mutex<()>,
    back: Condvar,
    /// Odd while it is exchanged for another one.
    changes: AtomicU32,
    /// Locked meanwhile.
    changing: Mutex<()>,
}

/// An exchange under way; the end of it when dropped.
#[derive(Debug)]
pub struct Change<'a> {
    changes: &'a AtomicU32,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            place: Handover::default(),
            wanted: AtomicBool::new(false),
            stopping: Mutex::default(),
            back: Condvar::new(),
            changes: AtomicU32::new(0),
            changing: Mutex::default(),
        }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.stopping)
    }

    /// Whether a thread waits to stop it: the holder should return it.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Checks it out; none if there is none, it is out, or wanted for a change.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        if self.is_wanted() {
            return None;
        }
        match self.place.check_out() {
            Taken::Value(it) => Some(it),
            Taken::Nothing | Taken::Out => None,
        }
    }

    /// As [`Slot::take`], but waits for another dispatcher to return it.
    #[inline]
    pub fn wait(&self) -> Option<Box<T>> {
        while !self.is_wanted() {
            match self.place.check_out() {
                Taken::Value(it) => return Some(it),
                Taken::Nothing => return None,
                Taken::Out => std::thread::yield_now(),
            }
        }
        None
    }

    /// As [`Slot::wait`], but waits also for an exchange that is under way, and for a few that follow it: the other side
    /// could go on for ever.
    pub fn wait_for_change(&self) -> Option<Box<T>> {
        for _ in 0..MAX_CHANGES {
            let before = self.changes.load(Ordering::SeqCst);
            let it = self.wait();
            if it.is_some() {
                return it;
            }
            if before % 2 == 1 {
                drop(lock(&self.changing));
            } else if self.changes.load(Ordering::SeqCst) == before {
                break;
            }
        }
        None
    }

    /// Begins an exchange: it is stopped, and another one started.
    pub fn change(&self) -> Change<'_> {
        let guard = lock(&self.changing);
        self.changes.fetch_add(1, Ordering::SeqCst);
        Change {
            changes: &self.changes,
            _guard: guard,
        }
    }

    #[inline]
    pub fn give_back(&self, it: Box<T>) {
        self.place.put(it);
        if self.is_wanted() {
            // The stopping thread has found it out, and sleeps once this lock is free.
            drop(self.lock());
            self.back.notify_all();
        }
    }

    /// Checks it out for one call. None as in [`Slot::take`].
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut it = self.take()?;
        let result = work(&mut it);
        self.give_back(it);
        Some(result)
    }

    /// Stops it: waits until it is returned, and removes it.
    pub fn stop(&self) -> Option<Box<T>> {
        let mut guard = self.lock();
        self.wanted.store(true, Ordering::SeqCst);
        let it = loop {
            match self.place.remove() {
                Taken::Value(it) => break Some(it),
                Taken::Nothing => break None,
                Taken::Out => {
                    let waited = self.back.wait(guard);
                    guard = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        self.wanted.store(false, Ordering::SeqCst);
        it
    }

    /// Inserts one; a previous one is stopped.
    pub fn start(&self, it: Box<T>) {
        drop(self.stop());
        self.place.put(it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn stopping_waits_until_it_is_returned() {
        let slot = Arc::new(Slot::default());
        slot.start(Box::new(7));
        let mine = slot.take().unwrap();
        assert!(slot.take().is_none(), "one at a time");
        let stopped = Arc::new(AtomicBool::new(false));
        let changer = std::thread::spawn({
            let (slot, stopped) = (Arc::clone(&slot), Arc::clone(&stopped));
            move || {
                let it = slot.stop().unwrap();
                stopped.store(true, Ordering::SeqCst);
                *it
            }
        });
        while !slot.is_wanted() {
            std::thread::yield_now();
        }
        assert!(!stopped.load(Ordering::SeqCst));
        slot.give_back(mine);
        assert_eq!(changer.join().unwrap(), 7);
        assert!(slot.take().is_none());
        assert_eq!(slot.with(|_| ()), None);
    }
}
