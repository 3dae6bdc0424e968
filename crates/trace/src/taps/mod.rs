//! Taps: when each of our packets passes one point of the network.
//!
//! A tap is a classifier at an interface's ingress or egress, so that it sees the frame where it enters
//! or leaves the device under test and nothing of the device's own work. It is the software form of an
//! optical splitter (Daichendt 2022, 6.1): the packet goes on unchanged, a copy of its identity and the
//! time stay behind.

mod attach;
pub mod matching;

pub use attach::{Point, Side, Tap};

use latlab_wire::trace::TapRecord;

/// Everything one tap saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its records, in the order of their arrival.
    pub records: Vec<TapRecord>,
    /// Packets of ours for which there was no room.
    pub no_room: u64,
    /// Frames that were none of ours.
    pub foreign: u64,
}
