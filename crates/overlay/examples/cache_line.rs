//! Round-trip time of a cache line between two CPUs. Benchmarks measure it before and after a figure, because a virtual
//! machine's CPUs may share a core at one time and not at another.
//!
//!     cache_line CPU CPU
//!
//! Prints nanoseconds for a round trip: the median of some stretches.

#[path = "turns/bounce.rs"]
mod bounce;

use bounce::{Bounce, pin};

const MEASURES: usize = 63;

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
    let bounce = match pin(one).and_then(|()| Bounce::start(other)) {
        Ok(bounce) => bounce,
        Err(error) => {
            eprintln!("cache_line: {error}");
            std::process::exit(2);
        }
    };
    let mut took: Vec<u64> = (0..MEASURES).map(|_| bounce.measure()).collect();
    took.sort_unstable();
    println!("{}", took[MEASURES / 2]);
}
