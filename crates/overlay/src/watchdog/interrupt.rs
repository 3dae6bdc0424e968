//! Interrupts of guests, through eventfds of their monitors.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use super::{sys, thread};

/// The write waited for a reader: the monitor has made its eventfd block, and filled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked;

/// A thread that interrupts guests.
#[derive(Debug)]
#[repr(align(64))]
struct Writer {
    thread: sys::ThreadId,
    /// Odd during a write; each write has its number.
    number: AtomicU64,
    /// The write that was ended by the watchdog.
    ended: AtomicU64,
}

thread_local! {
    static WRITER: Arc<Writer> = Writer::own();
}

impl Writer {
    fn own() -> Arc<Writer> {
        let writer = Arc::new(Writer {
            thread: sys::ThreadId::own(),
            number: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
        sys::accept_nudges();
        let (watched, mut before) = (Arc::downgrade(&writer), None);
        thread::watch_writer(move || {
            let writer = watched.upgrade();
            writer
                .inspect(|writer| before = writer.check(before))
                .is_some()
        });
        writer
    }

    /// Ends a write that is the same as at the last tick, and again at the next one if the thread was only about to wait.
    /// Returns the number of the write in progress.
    fn check(&self, before: Option<u64>) -> Option<u64> {
        let now = Some(self.number.load(Relaxed)).filter(|number| number % 2 == 1);
        if let Some(number) = now.filter(|_| now == before) {
            self.ended.store(number, Relaxed);
            self.thread.nudge();
        }
        now
    }
}

/// Adds one to an eventfd. One that is full says already what this would. Errors: the write blocked until the watchdog
/// ended it.
pub fn notify(event: &OwnedFd) -> Result<(), Blocked> {
    WRITER.with(|writer| {
        let number = writer.number.load(Relaxed) + 1;
        writer.number.store(number, Relaxed);
        let result = loop {
            match rustix::io::write(event, &1_u64.to_ne_bytes()) {
                Err(Errno::INTR) if writer.ended.load(Relaxed) == number => break Err(Blocked),
                Err(Errno::INTR) => {}
                _ => break Ok(()),
            }
        };
        writer.number.store(number + 1, Relaxed);
        result
    })
}
