//! A value that one thread at a time owns, handed over by exchanging a pointer: one atomic operation to take it, one to
//! return it.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A pointer to the value: null if there is none, [`out`] while it is taken.
#[derive(Debug)]
pub struct Handover<T> {
    at: AtomicPtr<T>,
    /// Owns a `T` that moves between threads, as in a mutex.
    _owns: PhantomData<Mutex<Box<T>>>,
}

pub enum Taken<T> {
    Value(Box<T>),
    Nothing,
    /// Another thread has it.
    Out,
}

/// No box lies at address 1: it would not be aligned, or not allocated.
const fn out<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<T> Default for Handover<T> {
    fn default() -> Handover<T> {
        Handover {
            at: AtomicPtr::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }
}

impl<T> Handover<T> {
    /// Takes the value, to be [`Handover::put`] back.
    #[inline]
    pub fn check_out(&self) -> Taken<T> {
        self.take(out())
    }

    pub fn remove(&self) -> Taken<T> {
        self.take(ptr::null_mut())
    }

    #[inline]
    fn take(&self, leave: *mut T) -> Taken<T> {
        let it = self.at.load(Ordering::SeqCst);
        if it.is_null() {
            return Taken::Nothing;
        }
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        if it == out()
            || self
                .at
                .compare_exchange(it, leave, success, failure)
                .is_err()
        {
            return Taken::Out;
        }
        // SAFETY: `put` made this pointer from a box, and the exchange has left it to us alone.
        Taken::Value(unsafe { Box::from_raw(it) })
    }

    #[inline]
    pub fn put(&self, it: Box<T>) {
        let before = self.at.swap(Box::into_raw(it), Ordering::SeqCst);
        debug_assert!(
            before.is_null() || before == out(),
            "two values in one place"
        );
    }
}

impl<T> Drop for Handover<T> {
    fn drop(&mut self) {
        drop(self.remove());
    }
}
