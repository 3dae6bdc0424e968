//! The flight recorder: what the watched CPUs did, until the window was over.
//!
//! Each CPU has a ring in memory that is shared with the kernel. No thread is woken while it records,
//! so the measured CPUs pay for writing an event and for nothing else (recording interrupts by a
//! program on the host spoiled the tail in Daichendt 2022, 6.2.3). The newest events stay; how many
//! older ones were overwritten is known. Where a run is longer than its rings, a [`Follower`] takes from them
//! what is around the slowest packets so far, on a CPU that is not measured.

mod attach;
mod calls;
mod follower;
mod recorded;
mod rings;
mod softirq;
mod symbols;
mod windows;

pub use attach::{Mark, Recorder, Settings};
pub use calls::call_names;
pub use follower::{Follower, Wanted};
pub use latlab_wire::trace::around;
pub use recorded::{Gaps, Recorded, Watched};
