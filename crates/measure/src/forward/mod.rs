//! Packets through a device under test, timed outside of it, with the kernel's events meanwhile.
//!
//! Taps stand where packets leave the sender's interface and where they enter the next node's. The time
//! between two taps therefore belongs to the device and its link, and excludes the generator's lateness and
//! the receiver's wake-up. The flight recorder runs on the lab's CPUs for the same window. Interruptions from
//! underneath the kernel are invisible to it, so they are looked for before and after. Both write into
//! memory, which is read when the window is over.
//!
//! The memory of the tap records and of the rings is known beforehand, and a run that exceeds the machine's
//! is refused. Where a run may be longer than the rings, a [`Reader`] takes the events around the slowest
//! packets so far. After the window nothing is copied: packets are matched in place ([`Timed`]), written a
//! row group at a time, and the slowest kept in a heap.

mod measure;
mod nothing;
mod reader;
mod recording;
mod stacks;
mod taps;
pub(crate) mod timed;
mod unknown;

pub use measure::measure;
pub use reader::{Reader, ReaderCpu};
pub use timed::Timed;
