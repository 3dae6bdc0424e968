//! Where a ring waits between passes, and where it is stopped.
//!
//! A dispatcher checks a ring out for as long as it, or frames that lie in its guest's memory, are in
//! use, and gives it back. Whoever wants to change a ring (its memory, its addresses) asks for it, and
//! has it when it was given back: the stop command and its acknowledgement in one, which also works
//! while no dispatcher looks at the port at all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place of a `T` that one may have at a time.
#[derive(Debug)]
pub struct Slot<T> {
    state: Mutex<State<T>>,
    back: Condvar,
}

#[derive(Debug)]
struct State<T> {
    here: Option<Box<T>>,
    out: bool,
    wanted: bool,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            state: Mutex::new(State {
                here: None,
                out: false,
                wanted: false,
            }),
            back: Condvar::new(),
        }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks it out; none while there is none, it is out or wanted for a change.
    pub fn take(&self) -> Option<Box<T>> {
        let mut state = self.lock();
        if state.wanted {
            return None;
        }
        let here = state.here.take()?;
        state.out = true;
        Some(here)
    }

    /// Gives back what was checked out.
    pub fn give_back(&self, it: Box<T>) {
        let mut state = self.lock();
        state.here = Some(it);
        state.out = false;
        if state.wanted {
            self.back.notify_all();
        }
    }

    /// Uses it without checking it out: what is done does not outlast the call. None as in
    /// [`Slot::take`].
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.lock();
        if state.wanted {
            return None;
        }
        state.here.as_deref_mut().map(work)
    }

    /// Stops it: waits until it is given back, and takes it for good.
    pub fn stop(&self) -> Option<Box<T>> {
        let mut state = self.lock();
        while state.out {
            state.wanted = true;
            let waited = self.back.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.wanted = false;
        state.here.take()
    }

    /// Puts one in; one that was there before is stopped.
    pub fn start(&self, it: Box<T>) {
        drop(self.stop());
        self.lock().here = Some(it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

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
        while !slot.lock().wanted {
            std::thread::yield_now();
        }
        assert!(!stopped.load(Ordering::SeqCst));
        slot.give_back(mine);
        assert_eq!(changer.join().unwrap(), 7);
        assert!(slot.take().is_none());
        assert_eq!(slot.with(|_| ()), None);
    }
}
