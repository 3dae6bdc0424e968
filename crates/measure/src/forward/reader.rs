//! Who reads the flight recorder's rings while it records, where a run is longer than they are.
//!
//! Nothing that records may run on a measured processor. So the reader has one of its own, the lowest of
//! those that are left, where the machine keeps house anyway, and half of its time at most; where there is none
//! but the sender's, it has a tenth of that at most, in turns of a few microseconds: a generator that keeps its schedule by polling
//! leaves nothing, and a packet that is due meanwhile is late by no more than the turn. Its lateness is
//! recorded as ever. Where even the sender's processor is measured (the kernel carries packets on in the
//! context of who sends them), nobody reads, and the newest events are kept.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_model::spec::Device;
use latlab_trace::recorder::Follower;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// What it works at once.
const TURN: Duration = Duration::from_micros(20);
/// It comes after everybody else.
const NICE: i32 = 19;

/// A reader's processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// On this nothing is done for the packets.
    Alone(u32),
    /// This is the sender's.
    Beside(u32),
}

impl Seat {
    fn cpu(self) -> u32 {
        let (Seat::Alone(cpu) | Seat::Beside(cpu)) = self;
        cpu
    }

    /// How much longer than it worked it sleeps.
    fn pause(self) -> u32 {
        match self {
            Seat::Alone(_) => 1,
            Seat::Beside(_) => 9,
        }
    }
}

/// A reader at work.
pub struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Follower>,
}

impl Reader {
    /// Lets it read.
    ///
    /// # Errors
    /// When there can be no other thread.
    pub fn start(follower: Follower, seat: Seat) -> io::Result<Reader> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let name = std::thread::Builder::new().name("latlab-reader".into());
        let thread = name.spawn(move || {
            let mut set = CpuSet::new();
            set.set(seat.cpu() as usize);
            // A processor that went away leaves it where it may run.
            sched_setaffinity(None, &set).ok();
            // On Linux this is the thread's own.
            rustix::process::nice(NICE).ok();
            read(follower, seat, &told)
        })?;
        Ok(Reader { stop, thread })
    }

    /// Ends it. Without its follower, nothing is known of what is overwritten by now.
    #[must_use]
    pub fn stop(self) -> Option<Follower> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok()
    }
}

fn read(mut follower: Follower, seat: Seat, stop: &AtomicBool) -> Follower {
    let patience = follower.patience();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let mut more = true;
        while more && begin.elapsed() < TURN {
            more = follower.turn(now_ns());
        }
        match more {
            true => std::thread::sleep(begin.elapsed() * seat.pause()),
            // Whoever ends it must not wait for this.
            false => std::thread::park_timeout(patience),
        }
    }
    follower
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Who is where while packets go through a device.
pub(super) struct Seats {
    /// Where latlab may run.
    pub own: BTreeSet<u32>,
    /// What sends.
    pub sender: Option<u32>,
    /// What forwards, where that is a program.
    pub device: Option<u32>,
    /// Where the nodes on the way are confined to.
    pub confined: BTreeSet<u32>,
}

impl Seats {
    /// The reader's processor; `None` where all are measured.
    pub fn reader(&self, device: Device) -> Option<Seat> {
        let by_program = matches!(device, Device::AfPacket | Device::AfXdp | Device::Testpmd);
        // Of what the lab has there, nobody knows.
        let by_kernel = !by_program;
        let any_program = by_program || device == Device::Lab;
        let mut measured = self.confined.clone();
        measured.extend(self.device.filter(|_| any_program));
        measured.extend(self.sender.filter(|_| by_kernel));
        let left = || self.own.iter().filter(|&cpu| !measured.contains(cpu));
        let alone = left().find(|&&cpu| Some(cpu) != self.sender);
        let beside = self
            .sender
            .filter(|_| by_program && self.sender != self.device);
        alone
            .map(|&cpu| Seat::Alone(cpu))
            .or(beside.map(Seat::Beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(own: &[u32], confined: &[u32]) -> Seats {
        Seats {
            own: own.iter().copied().collect(),
            sender: Some(0),
            device: Some(3),
            confined: confined.iter().copied().collect(),
        }
    }

    #[test]
    fn nobody_reads_on_a_measured_processor() {
        use Device::{AfPacket, Lab, Route};
        let all = seats(&[0, 1, 2, 3], &[]);
        assert_eq!(all.reader(AfPacket), Some(Seat::Alone(1)));
        assert_eq!(all.reader(Route), Some(Seat::Alone(1)));
        let confined = seats(&[0, 1, 2, 3], &[1, 2, 3]);
        assert_eq!(confined.reader(AfPacket), Some(Seat::Beside(0)));
        let two = seats(&[0, 3], &[]);
        assert_eq!(two.reader(AfPacket), Some(Seat::Beside(0)));
        assert_eq!(
            two.reader(Route),
            Some(Seat::Alone(3)),
            "nothing forwards there"
        );
        assert_eq!(two.reader(Lab), None);
        let one = Seats {
            device: Some(0),
            ..seats(&[0], &[])
        };
        assert_eq!(one.reader(AfPacket), None);
        // Isolated: latlab keeps house, the sender has a processor of the lab's.
        let isolated = Seats {
            sender: Some(2),
            ..seats(&[0], &[2, 3])
        };
        assert_eq!(isolated.reader(AfPacket), Some(Seat::Alone(0)));
    }
}
