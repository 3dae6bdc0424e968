//! Where a ring waits between passes, and where it is stopped.
//!
//! A dispatcher checks a ring out for as long as it, or frames that lie in its guest's memory, are in
//! use, and gives it back. Whoever wants to change a ring (its memory, its addresses) asks for it, and
//! has it when it was given back: the stop command and its acknowledgement in one, which also works
//! while no dispatcher looks at the port at all.
//!
//! That costs dispatchers one exchange each way; only who stops a ring waits at a lock. Who looks at a ring
//! again and again keeps it, and asks at each look whether it is wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sys::{Handover, Taken};

/// The place of a `T` that one may have at a time.
#[derive(Debug)]
pub struct Slot<T> {
    place: Handover<T>,
    /// Whether somebody waits to stop it.
    wanted: AtomicBool,
    stopping: Mutex<()>,
    back: Condvar,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            place: Handover::default(),
            wanted: AtomicBool::new(false),
            stopping: Mutex::default(),
            back: Condvar::new(),
        }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, ()> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits to stop it: who has it should give it back.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Checks it out; none while there is none, it is out or wanted for a change.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        if self.is_wanted() {
            return None;
        }
        match self.place.check_out() {
            Taken::It(it) => Some(it),
            Taken::Nothing | Taken::Out => None,
        }
    }

    /// As [`Slot::take`], but waits for another dispatcher that has it for the moment.
    #[inline]
    pub fn wait(&self) -> Option<Box<T>> {
        while !self.is_wanted() {
            match self.place.check_out() {
                Taken::It(it) => return Some(it),
                Taken::Nothing => return None,
                Taken::Out => std::thread::yield_now(),
            }
        }
        None
    }

    /// Gives back what was checked out.
    #[inline]
    pub fn give_back(&self, it: Box<T>) {
        self.place.put(it);
        if self.is_wanted() {
            // Who wants it has looked and found it out, and sleeps when this lock is free.
            drop(self.lock());
            self.back.notify_all();
        }
    }

    /// Uses it without checking it out for longer than the call. None as in [`Slot::take`].
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut it = self.take()?;
        let result = work(&mut it);
        self.give_back(it);
        Some(result)
    }

    /// Stops it: waits until it is given back, and takes it for good.
    pub fn stop(&self) -> Option<Box<T>> {
        let mut guard = self.lock();
        self.wanted.store(true, Ordering::SeqCst);
        let it = loop {
            match self.place.remove() {
                Taken::It(it) => break Some(it),
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

    /// Puts one in; one that was there before is stopped.
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
    fn who_wants_to_change_it_waits_until_it_is_back() {
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
