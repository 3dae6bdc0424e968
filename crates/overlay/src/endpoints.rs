//! What every way into and out of the switch can do: a guest's rings, a tap, a link's socket.
//!
//! Receiving and sending are two halves, because a frame is received by one dispatcher only, and
//! sent by whichever has one for this port.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::frames::Batch;

/// A port's number: interfaces and links alike, small and dense, given by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// The receiving half.
pub trait Receive: Send {
    /// Appends what has arrived to the batch, at most what there is room for, in order; returns how
    /// many frames that were. Malformed ones are dropped and counted.
    fn receive(&mut self, batch: &mut Batch) -> usize;

    /// Every frame received has been sent or dropped: borrowed memory goes back to its owner.
    fn complete(&mut self);

    /// For how many nanoseconds from now on the other side may still not be told that it has its memory back; none
    /// when it was told, or will be at the next look.
    fn owes(&self) -> Option<u64> {
        None
    }

    /// Tells it, if it wants to know: it may have found out by itself.
    fn tell(&mut self) {}

    /// For how many nanoseconds frames may lie while more are gathered, if the other side can be had not to wake anybody
    /// meanwhile.
    fn gathers(&self) -> Option<u64> {
        None
    }

    /// What becomes readable when frames arrive while [`Receive::arm`]ed.
    fn wakeup(&self) -> BorrowedFd<'_>;

    /// Asks to be woken for the next frame. True when some have arrived already: then look again
    /// before sleeping.
    fn arm(&mut self) -> bool;

    /// Whether nothing will ever come again: the device is gone, and its descriptor would only wake its
    /// dispatcher for ever.
    fn is_gone(&self) -> bool {
        false
    }

    /// No wake-ups, please: somebody is looking, again and again until it is [`Receive::arm`]ed or dropped. Also
    /// takes back a wake-up that was given.
    fn disarm(&mut self);
}

/// The sending half.
pub trait Transmit: Send {
    /// Sends the frames of the batch that `which` lists, in order. Never waits: what does not fit is
    /// dropped and counted.
    fn transmit(&mut self, batch: &Batch, which: &[u16]);

    /// The pass is over: tell the receiver if it was not told yet (Cui 2013, 4.2: the end-of-coalescing
    /// notification).
    fn flush(&mut self) {}
}

/// Why a frame went nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// No route, nobody learned, nowhere to flood.
    NoRoute,
    /// Its source address is bound to another port.
    Spoofed,
    /// The receiver offers no buffer.
    NoBuffer,
    /// The port is there, but nobody is connected to it.
    Down,
    /// Longer than the port takes, and it cannot be cut.
    TooLong,
    /// Headers, descriptors or lengths that cannot be.
    Malformed,
    /// Too many broadcast, multicast and unknown frames.
    Limited,
    /// It came back to a host that it had left.
    Loop,
    /// From a peer or for a network that is not configured here.
    Unknown,
    /// The kernel refused to send it.
    Refused,
    /// Not authentic, or seen before (encrypted links).
    Unauthentic,
    /// Slices of a frame whose others never came.
    Incomplete,
}

impl DropReason {
    /// All, in the order of the counters.
    pub const ALL: [DropReason; 12] = [
        DropReason::NoRoute,
        DropReason::Spoofed,
        DropReason::NoBuffer,
        DropReason::Down,
        DropReason::TooLong,
        DropReason::Malformed,
        DropReason::Limited,
        DropReason::Loop,
        DropReason::Unknown,
        DropReason::Refused,
        DropReason::Unauthentic,
        DropReason::Incomplete,
    ];

    /// The name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NoRoute => "no_route",
            DropReason::Spoofed => "spoofed_source",
            DropReason::NoBuffer => "no_buffer",
            DropReason::Down => "down",
            DropReason::TooLong => "too_long",
            DropReason::Malformed => "malformed",
            DropReason::Limited => "limited",
            DropReason::Loop => "loop",
            DropReason::Unknown => "unknown_peer",
            DropReason::Refused => "refused",
            DropReason::Unauthentic => "unauthentic",
            DropReason::Incomplete => "incomplete",
        }
    }
}

/// A port's counters: written by its dispatchers once per batch, read by anybody.
#[derive(Debug, Default)]
pub struct Counters {
    /// What came in.
    pub received: Traffic,
    /// As `received`, the other way.
    pub sent: Traffic,
    /// Frames dropped, by [`DropReason`].
    dropped: [AtomicU64; DropReason::ALL.len()],
    /// Wake-ups by the other side (kicks).
    pub kicks: AtomicU64,
    /// Notifications to the other side (virtual interrupts).
    pub interrupts: AtomicU64,
    /// Batches received.
    pub batches: AtomicU64,
    /// Changes of the dispatch mode.
    pub mode_changes: AtomicU64,
    /// Rings and connections that were ended for the other side's mistakes.
    pub faults: AtomicU64,
    /// Looks of a dispatcher at it that took long, as the watchdog found.
    pub slow_rounds: AtomicU64,
    /// What was last found wrong with it.
    trouble: Mutex<Option<String>>,
}

/// Frames in one direction.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Frames.
    pub frames: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Of these, those that were copied in user space.
    pub copied: AtomicU64,
}

impl Traffic {
    /// Counts frames with their bytes.
    pub fn add(&self, frames: u64, bytes: u64) {
        self.frames.fetch_add(frames, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// Adds to a counter that nobody else adds to meanwhile: an atomic addition waits for all that was written
/// to a guest before, and a pass of one frame has seven.
#[inline]
pub fn add_alone(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

impl Counters {
    /// Bytes copied in user space.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.received.copied.load(Relaxed) + self.sent.copied.load(Relaxed)
    }

    /// Counts a fault, and keeps its reason.
    #[cold]
    pub fn note(&self, trouble: String) {
        self.faults.fetch_add(1, Relaxed);
        self.tell(trouble);
    }

    /// Keeps what is wrong with it.
    pub fn tell(&self, trouble: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
    }

    /// What was last found wrong with it.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone()
    }

    /// Counts dropped frames.
    pub fn drop_frames(&self, reason: DropReason, frames: u64) {
        self.dropped[reason as usize].fetch_add(frames, Relaxed);
    }

    /// How many were dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }
}
