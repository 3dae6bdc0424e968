//! Virtio's split rings in a guest's memory: the base of a port, and its attack surface.
//!
//! Private code, for two reasons. Walking a ring through a general guest-memory library costs ten times as much
//! (Firecracker's issue 4748). Caching its addresses is only safe if the checked length stays with the pointer and the
//! size never changes under it (its issue 6201).
//!
//! - `sys`: bounded access to shared memory; the only unsafe code
//! - `memory`: translates guest-physical and VMM addresses to places
//! - `queue`, `chain`: the ring, and its chains of buffers
//! - `deliver`: copies a frame into a guest's buffers
//! - `dirty`: a migration's log of written pages
//! - [`driver`]: the guest's side, for tests, fuzzing and measurements
//! - `slot`: takes a ring from its dispatcher to change it
//!
//! An error in the ring itself (see [`Fault`]) stops the ring; an error in a frame drops the frame.

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
pub use layout::MAX_ENTRIES;
pub use memory::{Location, MAX_REGIONS, Memory, MemoryError};
pub use queue::{Position, Queue, Setup, SetupError};
pub use slot::Slot;
pub use sys::Place;
