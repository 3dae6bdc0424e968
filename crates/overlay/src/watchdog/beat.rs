//! What a dispatcher says of itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sys::ThreadClock;
use super::thread;
use crate::endpoints::Counters;

/// At no port: it does what control asked for.
const NO_PORT: u32 = u32::MAX - 1;
/// At no port: it waits until one has something.
const ASLEEP: u32 = u32::MAX;

/// A port of a dispatcher.
#[derive(Debug)]
struct Port {
    key: u32,
    name: String,
    counters: Arc<Counters>,
}

/// A dispatcher's sign of life. On a cache line of its own, which nobody else writes.
#[derive(Debug)]
#[repr(align(64))]
pub struct Beat {
    /// Looks, counted, and in the lower half the port.
    word: AtomicU64,
    pub(super) name: String,
    pub(super) clock: ThreadClock,
    ports: Mutex<Vec<Port>>,
}

impl Beat {
    /// The calling thread is this dispatcher, and is watched until the last holder drops this.
    #[must_use]
    pub fn start(name: String) -> Arc<Beat> {
        let beat = Arc::new(Beat {
            word: AtomicU64::new(NO_PORT.into()),
            name,
            clock: ThreadClock::own(),
            ports: Mutex::default(),
        });
        thread::watch(&beat);
        beat
    }

    #[inline]
    fn say(&self, port: u32) {
        // Only the dispatcher writes it.
        let looks = self.word.load(Relaxed) >> 32;
        let next = (looks + 1) << 32 | u64::from(port);
        self.word.store(next, Relaxed);
    }

    /// It begins to look at a port.
    #[inline]
    pub fn looks_at(&self, key: u32) {
        self.say(key);
    }

    /// It begins to wait, for as long as it takes.
    pub fn sleeps(&self) {
        self.say(ASLEEP);
    }

    /// It does not wait any more.
    pub fn wakes(&self) {
        self.say(NO_PORT);
    }

    /// It has a port more.
    pub fn add(&self, key: u32, name: &str, counters: &Arc<Counters>) {
        self.ports().push(Port {
            key,
            name: name.to_string(),
            counters: Arc::clone(counters),
        });
    }

    /// It has a port less.
    pub fn remove(&self, key: u32) {
        self.ports().retain(|port| port.key != key);
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Port>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it says, and whether it waits.
    pub(super) fn heard(&self) -> (u64, bool) {
        let word = self.word.load(Relaxed);
        (word, word as u32 == ASLEEP)
    }

    /// The port of a word, by name, and what is counted about it.
    pub(super) fn port(&self, word: u64) -> (String, Option<Arc<Counters>>) {
        let ports = self.ports();
        match ports.iter().find(|port| port.key == word as u32) {
            Some(port) => (
                format!("at `{}`", port.name),
                Some(Arc::clone(&port.counters)),
            ),
            None => ("at no port".into(), None),
        }
    }
}
