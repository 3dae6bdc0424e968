//! The present distance of two CPUs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

const STRETCHES: u64 = 4;
const TRIPS: u64 = 100;

/// Alone in its line, and in that which is fetched beside it.
#[repr(align(128))]
struct Line(AtomicU64);
static LINE: Line = Line(AtomicU64::new(0));

/// A thread at the other CPU that returns a cache line, and sleeps otherwise.
pub struct Bounce {
    ask: Sender<()>,
    done: Receiver<()>,
}

impl Bounce {
    /// Starts a thread at that CPU, and sleeps until it is there: a thread starts at its parent's CPU, and would never leave
    /// it while a real-time parent spins there.
    pub fn start(cpu: usize) -> io::Result<Bounce> {
        let ((ask, asked), (say, done)) = (channel(), channel());
        let (arrive, arrived) = channel();
        thread::spawn(move || {
            let pinned = pin(cpu);
            if arrive.send(pinned).is_err() {
                return;
            }
            while asked.recv().is_ok() {
                (0..STRETCHES * TRIPS).for_each(|trip| pass(2 * trip + 1));
                if say.send(()).is_err() {
                    return;
                }
            }
        });
        arrived.recv().map_err(io::Error::other)??;
        Ok(Bounce { ask, done })
    }

    /// Nanoseconds from the calling thread's CPU to the other and back.
    pub fn measure(&self) -> u64 {
        LINE.0.store(0, Ordering::Release);
        if self.ask.send(()).is_err() {
            return 0;
        }
        // The first stretch woke the other.
        let mut took: Vec<u64> = (0..STRETCHES)
            .map(|stretch| {
                let begin = Instant::now();
                (stretch * TRIPS..(stretch + 1) * TRIPS).for_each(|trip| pass(2 * trip));
                begin.elapsed().as_nanos() as u64 / TRIPS
            })
            .collect();
        let _ = self.done.recv();
        took.sort_unstable();
        took[took.len() / 2 - 1]
    }
}

/// Waits for a number, and hands the next one over.
fn pass(number: u64) {
    while LINE.0.load(Ordering::Acquire) != number {
        std::hint::spin_loop();
    }
    LINE.0.store(number + 1, Ordering::Release);
}

/// Pins the calling thread to a CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let pinned = rustix::thread::sched_setaffinity(None, &set);
    pinned.map_err(|errno| io::Error::other(format!("CPU {cpu}: {errno}")))
}
