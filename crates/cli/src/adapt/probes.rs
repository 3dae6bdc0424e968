//! Round trips between hosts: an ICMP echo a second on each leg, from the namespace of the daemon at its lower end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use latlab_model::adapt::{Leg, Pair};
use latlab_probe::Ping;

use super::hosts::Hosts;
use crate::failure::Failure;

/// Time between two probes of a leg, and between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of an answer: less than the interval, so that each second has its own.
const TIMEOUT: Duration = Duration::from_millis(900);

/// Echoes of a probe; further ones only where the first was quick.
const ECHOES: usize = 4;

const BRIEF_TIMEOUT: Duration = Duration::from_millis(100);

type Legs = Arc<Mutex<BTreeMap<Pair, Leg>>>;

/// Probes on all legs; they end with this value.
pub(super) struct Probes {
    legs: Legs,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    pub(super) fn start(hosts: &Hosts) -> Result<Probes, Failure> {
        let mut probes = Probes {
            legs: Legs::default(),
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        // Another process may probe the same hosts.
        let first = std::process::id() as u16;
        for (number, leg) in (0..).zip(hosts.legs()) {
            let identifier = first.wrapping_add(number);
            // The socket stays in the namespace that it was opened in.
            let ping = leg
                .netns
                .run(|| Ping::open(leg.remote, leg.local, identifier))?;
            let ping = ping.map_err(|error| {
                let message = format!("cannot send probes to {}: {error}", leg.remote);
                Failure::new(
                    message,
                    "is the host's interface up, and are there ICMP sockets?",
                )
            })?;
            let (pair, legs, stop) = (leg.pair, Arc::clone(&probes.legs), Arc::clone(&probes.stop));
            let probing = move || probe(ping, pair, &legs, &stop);
            let thread = Builder::new().name("probe".into()).spawn(probing)?;
            probes.threads.push(thread);
        }
        Ok(probes)
    }

    /// The last second's round trips.
    pub(super) fn legs(&self) -> BTreeMap<Pair, Leg> {
        self.legs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A probe that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn probe(mut ping: Ping, pair: Pair, legs: &Legs, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let round_trip = shortest(&mut ping);
        let mut legs = legs.lock().unwrap_or_else(PoisonError::into_inner);
        legs.insert(pair, Leg { round_trip });
        drop(legs);
        std::thread::sleep(INTERVAL.saturating_sub(begin.elapsed()));
    }
}

/// The shortest round trip of some: a busy CPU wakes the prober up late, but not each time. A full queue is in all of them.
fn shortest(ping: &mut Ping) -> Option<Duration> {
    let first = ping.round_trip(TIMEOUT)?;
    let mut shortest = first;
    for _ in 1..ECHOES {
        if first < BRIEF_TIMEOUT {
            shortest = shortest.min(ping.round_trip(BRIEF_TIMEOUT).unwrap_or(first));
        }
    }
    Some(shortest)
}
