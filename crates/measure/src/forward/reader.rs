//! Reads the flight recorder's rings while it records, where a run is longer than they are.
//!
//! The reader must not disturb a measured CPU. It runs on the lowest free (housekeeping) CPU, at most 50 % of
//! the time. If only the sender's CPU is free, it takes at most 10 % of that, in turns of 20 µs. A generator that
//! keeps its schedule by polling leaves no idle time, so a packet is late by at most a turn, which its recorded
//! lateness shows. If the sender's CPU is measured too (the kernel forwards packets in the sender's context),
//! nothing is read, and the newest events are kept.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_model::spec::Device;
use latlab_trace::recorder::Follower;

use crate::affinity::pin_thread;
use crate::clock::now_ns;

const MAX_TURN: Duration = Duration::from_micros(20);
/// The lowest priority.
const NICE: i32 = 19;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderCpu {
    /// A CPU that does no work for the packets.
    Dedicated(u32),
    Shared(u32),
}

impl ReaderCpu {
    fn number(self) -> u32 {
        let (ReaderCpu::Dedicated(cpu) | ReaderCpu::Shared(cpu)) = self;
        cpu
    }

    /// Sleeping time as a multiple of working time.
    fn pause(self) -> u32 {
        match self {
            ReaderCpu::Dedicated(_) => 1,
            ReaderCpu::Shared(_) => 9,
        }
    }
}

pub struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Follower>,
}

impl Reader {
    pub fn start(follower: Follower, cpu: ReaderCpu) -> io::Result<Reader> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let name = std::thread::Builder::new().name("latlab-reader".into());
        let thread = name.spawn(move || {
            // A CPU that went offline leaves the scheduler's choice.
            pin_thread(cpu.number()).ok();
            // On Linux niceness belongs to the thread.
            rustix::process::nice(NICE).ok();
            read(follower, cpu, &told)
        })?;
        Ok(Reader { stop, thread })
    }

    /// Ends the thread. `None` if it panicked: the events it took are lost with its follower.
    #[must_use]
    pub fn stop(self) -> Option<Follower> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok()
    }
}

fn read(mut follower: Follower, cpu: ReaderCpu, stop: &AtomicBool) -> Follower {
    let interval = follower.poll_interval();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let mut more = true;
        while more && begin.elapsed() < MAX_TURN {
            more = follower.turn(now_ns());
        }
        match more {
            true => std::thread::sleep(begin.elapsed() * cpu.pause()),
            // Parked, so that `stop` need not wait.
            false => std::thread::park_timeout(interval),
        }
    }
    follower
}

pub(super) struct CpuRoles {
    /// CPUs that latlab may use.
    pub allowed: BTreeSet<u32>,
    pub sender: Option<u32>,
    /// CPU of the device, if a program forwards.
    pub device: Option<u32>,
    /// CPUs of confined nodes on the path.
    pub confined: BTreeSet<u32>,
}

impl CpuRoles {
    /// The reader's CPU; `None` where all are measured.
    pub fn reader(&self, device: Device) -> Option<ReaderCpu> {
        let by_program = matches!(device, Device::AfPacket | Device::AfXdp | Device::Testpmd);
        // The lab's own device may be a program or the kernel.
        let by_kernel = !by_program;
        let any_program = by_program || device == Device::Lab;
        let mut measured = self.confined.clone();
        measured.extend(self.device.filter(|_| any_program));
        measured.extend(self.sender.filter(|_| by_kernel));
        let left = || self.allowed.iter().filter(|&cpu| !measured.contains(cpu));
        let alone = left().find(|&&cpu| Some(cpu) != self.sender);
        let beside = self
            .sender
            .filter(|_| by_program && self.sender != self.device);
        alone
            .map(|&cpu| ReaderCpu::Dedicated(cpu))
            .or(beside.map(ReaderCpu::Shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(own: &[u32], confined: &[u32]) -> CpuRoles {
        CpuRoles {
            allowed: own.iter().copied().collect(),
            sender: Some(0),
            device: Some(3),
            confined: confined.iter().copied().collect(),
        }
    }

    #[test]
    fn the_reader_keeps_off_measured_cpus() {
        use Device::{AfPacket, Lab, Route};
        let all = roles(&[0, 1, 2, 3], &[]);
        assert_eq!(all.reader(AfPacket), Some(ReaderCpu::Dedicated(1)));
        assert_eq!(all.reader(Route), Some(ReaderCpu::Dedicated(1)));
        let confined = roles(&[0, 1, 2, 3], &[1, 2, 3]);
        assert_eq!(confined.reader(AfPacket), Some(ReaderCpu::Shared(0)));
        let two = roles(&[0, 3], &[]);
        assert_eq!(two.reader(AfPacket), Some(ReaderCpu::Shared(0)));
        assert_eq!(
            two.reader(Route),
            Some(ReaderCpu::Dedicated(3)),
            "no program forwards there"
        );
        assert_eq!(two.reader(Lab), None);
        let one = CpuRoles {
            device: Some(0),
            ..roles(&[0], &[])
        };
        assert_eq!(one.reader(AfPacket), None);
        // Isolated: latlab is on the housekeeping CPU, the sender on one of the lab's.
        let isolated = CpuRoles {
            sender: Some(2),
            ..roles(&[0], &[2, 3])
        };
        assert_eq!(isolated.reader(AfPacket), Some(ReaderCpu::Dedicated(0)));
    }
}
