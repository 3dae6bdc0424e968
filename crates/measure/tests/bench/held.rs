//! A device that holds a frame up by itself now and then, and says when.
//!
//! A frame is held for 20 µs to 3 ms, at random times, and the others are forwarded without delay.

use super::{FAR, HOG, now_ns, pin};
use crate::injections::sys;

/// Lengths of a hold.
const SHORTEST_NS: u64 = 20_000;
const LONGEST_NS: u64 = 3_000_000;
/// From one to the next.
const APART_NS: (u64, u64) = (15_000_000, 60_000_000);

/// Memory to fault in at most: more than the longest hold takes, and mapped for itself.
const FAULT_BYTES: usize = 16 << 20;
/// Random bytes to ask for at most, and those that the kernel makes in a microsecond, about.
const RANDOM_BYTES: usize = 4 << 20;
const BYTES_PER_US: usize = 400;

/// The device's way to spend the time with a frame in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Compute,
    Read,
    Futex,
    Nanosleep,
    Fault,
    SystemCall,
}

impl Hold {
    pub const ALL: [Hold; 6] = [
        Hold::Compute,
        Hold::Read,
        Hold::Futex,
        Hold::Nanosleep,
        Hold::Fault,
        Hold::SystemCall,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Hold::Compute => "held: computes",
            Hold::Read => "held: blocks in read",
            Hold::Futex => "held: blocks in futex",
            Hold::Nanosleep => "held: blocks in nanosleep",
            Hold::Fault => "held: faults in pages",
            Hold::SystemCall => "held: spins in getrandom",
        }
    }

    /// The system call in which the device blocks.
    pub fn blocks_in(self) -> Option<&'static str> {
        match self {
            Hold::Read => Some("read"),
            Hold::Futex => Some("futex"),
            Hold::Nanosleep => Some("nanosleep"),
            _ => None,
        }
    }

    pub fn named(name: &str) -> Option<Hold> {
        Hold::ALL.into_iter().find(|hold| hold.name() == name)
    }
}

/// The device's state.
pub struct Holding {
    hold: Hold,
    sockets: [std::os::fd::OwnedFd; 2],
    random: u64,
    next_ns: u64,
    timer: std::os::fd::OwnedFd,
    bytes: Vec<u8>,
}

impl Holding {
    pub fn open(hold: Hold) -> Holding {
        if hold.blocks_in().is_some() {
            keep_awake();
        }
        Holding {
            hold,
            sockets: ["in", "out"].map(|name| sys::packet_socket(name).unwrap()),
            random: now_ns() | 1,
            next_ns: 0,
            timer: sys::timer(),
            bytes: vec![1; RANDOM_BYTES],
        }
    }

    /// Forwards the frames that are there. Returns begin and end of a hold.
    pub fn turn(&mut self) -> Option<(u64, u64)> {
        let mut frame = [0; 2048];
        let mut held = None;
        while let Some(length) = sys::receive(&self.sockets[0], &mut frame) {
            if now_ns() >= self.next_ns {
                held = Some(self.hold());
                self.next_ns = now_ns() + self.random(APART_NS.0, APART_NS.1);
            }
            sys::send(&self.sockets[1], &frame[..length]);
            if held.is_some() {
                break;
            }
        }
        held
    }

    fn random(&mut self, from: u64, to: u64) -> u64 {
        // xorshift
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        from + self.random % (to - from)
    }

    fn hold(&mut self) -> (u64, u64) {
        let length = self.random(SHORTEST_NS, LONGEST_NS);
        let begin = now_ns();
        let due = begin + length;
        match self.hold {
            Hold::Compute => compute_until(due),
            Hold::Fault => fault_until(due),
            Hold::SystemCall => {
                let bytes = (length as usize * BYTES_PER_US / 1000).min(RANDOM_BYTES);
                sys::random(&mut self.bytes[..bytes]);
            }
            Hold::Read => {
                sys::expire_at(&self.timer, due);
                rustix::io::read(&self.timer, &mut [0; 8]).unwrap();
                return (begin, due);
            }
            Hold::Futex => {
                sys::wait_on_futex(due);
                return (begin, due);
            }
            Hold::Nanosleep => {
                sys::nanosleep(length);
                return (begin, due);
            }
        }
        (begin, now_ns())
    }
}

/// Keeps the device's CPU from idle states, whose exit would lie between a timer and the device. A timer ends
/// what blocks, so the truth does not depend on a wake-up either.
fn keep_awake() {
    let spin = || {
        pin(FAR);
        sys::be_idle();
        loop {
            std::hint::spin_loop();
        }
    };
    let named = std::thread::Builder::new().name(HOG.into());
    named.spawn(spin).unwrap();
    sys::exact_timers();
}

/// Touches new memory.
fn fault_until(end: u64) {
    let page = rustix::param::page_size();
    let mut memory: Vec<u8> = Vec::with_capacity(FAULT_BYTES);
    let bytes = memory.spare_capacity_mut();
    for at in (0..FAULT_BYTES).step_by(page) {
        bytes[at].write(1);
        if now_ns() >= end {
            break;
        }
    }
    // Not freed: that would take time without being a fault.
    std::mem::forget(std::hint::black_box(memory));
}

/// The function that is to be found.
#[inline(never)]
fn compute_until(end: u64) {
    while now_ns() < end {
        std::hint::spin_loop();
    }
}
