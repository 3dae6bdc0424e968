//! Frames on their way through the switch.
//!
//! A frame is never copied as a whole before it is known where it goes. Its first bytes (all the
//! headers that the switch looks at) are copied once into the batch, because a hostile guest may
//! change its memory while it is read: what was checked is what is sent. The rest stays where the
//! sender has it and is borrowed until the batch is complete.

mod batch;
mod checksum;
mod flow;
mod headers;
mod joining;
mod offload;
#[cfg(test)]
pub(crate) mod random;
mod segmentation;
mod sys;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Frame, HEAD, HOPS, MAX_SEGMENTS, NETWORK_UNKNOWN, Unfit};
pub use checksum::Sum;
pub use headers::{Headers, Refused, uncompleted};
pub use joining::Joiner;
pub use offload::{Gso, Offload, OffloadError};
pub use segmentation::{Arena, MAX_PIECES};
pub use sys::Segment;
pub(crate) use sys::copy;
