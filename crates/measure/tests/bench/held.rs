//! A device that holds a frame up by itself now and then, and says when.
//!
//! A frame is held for 20 µs to 3 ms, at random times, and the others are forwarded without delay.

use super::now_ns;
use super::sys;

/// Lengths of a hold.
const SHORTEST_NS: u64 = 20_000;
const LONGEST_NS: u64 = 3_000_000;
/// From one to the next.
const APART_NS: (u64, u64) = (15_000_000, 60_000_000);

/// The device's way to spend the time with a frame in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Compute,
}

impl Hold {
    pub const ALL: [Hold; 1] = [Hold::Compute];

    pub fn name(self) -> &'static str {
        match self {
            Hold::Compute => "held: computes",
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
}

impl Holding {
    pub fn open(hold: Hold) -> Holding {
        Holding {
            hold,
            sockets: ["in", "out"].map(|name| sys::packet_socket(name).unwrap()),
            random: now_ns() | 1,
            next_ns: 0,
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
        match self.hold {
            Hold::Compute => compute_until(begin + length),
        }
        (begin, now_ns())
    }
}

/// The function that is to be found.
#[inline(never)]
fn compute_until(end: u64) {
    while now_ns() < end {
        std::hint::spin_loop();
    }
}
