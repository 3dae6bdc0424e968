//! Taps: the time at which each of our packets passes one point of the network.
//!
//! A tap is a classifier at an interface's ingress or egress. It sees the frame where it enters or leaves the
//! device under test and nothing of the device's own work. It is the software form of an optical splitter
//! (Daichendt 2022, 6.1): the packet goes on unchanged, and its identity and time are recorded.

mod attach;
pub(crate) mod follow;
pub mod matching;
mod records;
pub mod under_way;

pub use attach::{Point, Side, Tap};
pub use follow::Live;
pub use records::{Records, Seen};
