//! A dispatcher's sign of life, and the check of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use super::judge::{Judge, Tick, Verdict};
use super::sys::ThreadClock;
use super::{process, thread};
use crate::endpoints::Counters;
use crate::sync::lock;

/// No port: an order of control is carried out.
const NO_PORT: u32 = u32::MAX - 1;
/// No port: the dispatcher waits until one has frames.
const ASLEEP: u32 = u32::MAX;

#[derive(Debug)]
struct Port {
    key: u32,
    name: String,
    counters: Arc<Counters>,
}

/// A dispatcher's sign of life. On a cache line of its own, which no other thread writes.
#[derive(Debug)]
#[repr(align(64))]
pub struct Beat {
    /// Number of the poll in the upper half, port in the lower.
    word: AtomicU64,
    name: String,
    clock: ThreadClock,
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
        let (watched, mut judge) = (Arc::downgrade(&beat), Judge::default());
        thread::watch_dispatcher(move || match watched.upgrade() {
            Some(beat) => beat.check(&mut judge),
            None => false,
        });
        beat
    }

    #[inline]
    fn say(&self, port: u32) {
        // Only the dispatcher writes it.
        let polls = self.word.load(Relaxed) >> 32;
        let next = (polls + 1) << 32 | u64::from(port);
        self.word.store(next, Relaxed);
    }

    #[inline]
    pub fn looks_at(&self, key: u32) {
        self.say(key);
    }

    pub fn sleeps(&self) {
        self.say(ASLEEP);
    }

    pub fn wakes(&self) {
        self.say(NO_PORT);
    }

    pub fn add(&self, key: u32, name: &str, counters: &Arc<Counters>) {
        self.ports().push(Port {
            key,
            name: name.to_string(),
            counters: Arc::clone(counters),
        });
    }

    pub fn remove(&self, key: u32) {
        self.ports().retain(|port| port.key != key);
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Port>> {
        lock(&self.ports)
    }

    /// Judges the dispatcher at one tick; false when its thread is gone or judged for good.
    fn check(&self, judge: &mut Judge) -> bool {
        let word = self.word.load(Relaxed);
        let asleep = word as u32 == ASLEEP;
        let mut tick = Tick {
            word,
            asleep,
            cpu: 0,
            waits: false,
        };
        if judge.suspects(word, asleep) {
            let Some(cpu) = self.clock.read() else {
                return false;
            };
            (tick.cpu, tick.waits) = (cpu, self.clock.waits());
        }
        let verdict = judge.hear(tick);
        let what = match verdict {
            Verdict::Fine => return true,
            Verdict::Slow => "takes long",
            Verdict::Loops => "does not come to an end",
            Verdict::Waits => "waits for ever",
        };
        let (port, counters) = self.port(word);
        let text = format!("{} {what} {port}", self.name);
        let is_slow = verdict == Verdict::Slow;
        if is_slow {
            eprintln!("warning: {text}");
            if let Some(counters) = counters {
                counters.slow_rounds.fetch_add(1, Relaxed);
                counters.tell(format!("its dispatcher {what} here"));
            }
        } else {
            process::end(&text);
        }
        is_slow
    }

    /// The port of a word, by name, with its counters.
    fn port(&self, word: u64) -> (String, Option<Arc<Counters>>) {
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
