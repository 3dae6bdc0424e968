//! Virtio's split rings in a guest's memory: the ground of a port, and where a guest can attack.
//!
//! Our own code, because a ring that is walked through a general guest-memory library costs ten times
//! as much (Firecracker's issue 4748), and because caching its addresses is only safe when the checked
//! length stays with the pointer and the size never changes under it (its issue 6201).
//!
//! - `sys`: memory of somebody else, bounded; the only unsafe code
//! - `memory`: guest-physical and monitor's addresses to places
//! - `queue`, `chain`: the ring, and what a guest puts into it
//! - `deliver`: a frame into a guest's buffers
//! - `dirty`: a migration's log of written pages
//! - [`driver`]: the other side, for tests, fuzzing and measurements
//! - `slot`: how a ring is taken from its dispatcher to be changed
//!
//! A mistake in the ring itself (see [`Fault`]) stops the ring; a mistake in a frame drops the frame.

#[cfg(test)]
mod attacks;
mod chain;
mod deliver;
mod dirty;
pub mod driver;
mod fault;
mod layout;
mod memory;
mod queue;
mod slot;
mod sys;

pub use chain::{Chain, Direction, Piece};
pub use deliver::{Buffers, Delivery, Outgoing};
pub use dirty::{DirtyLog, UsedLog};
pub use fault::Fault;
pub use layout::MOST_ENTRIES;
pub use memory::{Location, MOST_REGIONS, Memory, MemoryError};
pub use queue::{Position, Queue, Setup, SetupError};
pub use slot::Slot;
pub use sys::Place;
