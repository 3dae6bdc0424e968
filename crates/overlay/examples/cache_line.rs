//! How long a cache line takes from one processor to another and back: two threads hand a counter to
//! and fro. `bench/overlay-vhost` asks before and after each figure, because a virtual machine's
//! processors may share a core at one time and not at another.
//!
//!     cache_line CPU CPU
//!
//! Prints nanoseconds for a round trip: the median of 64 stretches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const STRETCHES: usize = 64;
const TRIPS: u64 = 2000;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let cpus = match words.as_slice() {
        [_, one, other] => one.parse().ok().zip(other.parse().ok()),
        _ => None,
    };
    let Some((one, other)) = cpus else {
        eprintln!("usage: cache_line CPU CPU");
        std::process::exit(2);
    };
    // Alone in its line, and in that which is fetched beside it.
    #[repr(align(128))]
    struct Line(AtomicU64);
    static LINE: Line = Line(AtomicU64::new(0));
    let most = STRETCHES as u64 * TRIPS;
    let echo = std::thread::spawn(move || {
        pin(other);
        for trip in 0..most {
            pass(&LINE.0, 2 * trip + 1);
        }
    });
    pin(one);
    let mut took: Vec<f64> = (0..STRETCHES as u64)
        .map(|stretch| {
            let begin = Instant::now();
            for trip in stretch * TRIPS..(stretch + 1) * TRIPS {
                pass(&LINE.0, 2 * trip);
            }
            begin.elapsed().as_nanos() as f64 / TRIPS as f64
        })
        .collect();
    echo.join().expect("the other thread ends by itself");
    took.sort_by(f64::total_cmp);
    println!("{:.1}", took[STRETCHES / 2]);
}

/// Waits for a number, and hands the next one over.
fn pass(line: &AtomicU64, number: u64) {
    while line.load(Ordering::Acquire) != number {
        std::hint::spin_loop();
    }
    line.store(number + 1, Ordering::Release);
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("a processor that there is");
}
