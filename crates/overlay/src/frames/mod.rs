//! Frames in the switch.
//!
//! A frame is never copied as a whole before its destination is known. Its first bytes, with all headers that the switch
//! reads, are copied once into the batch: a hostile guest may change its memory meanwhile, and the checked bytes must be
//! the sent ones. The rest stays in the sender's memory, borrowed until the batch is complete.

mod batch;
mod checksum;
mod copied;
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
pub use copied::{CopyBatch, FrameCopy};
pub use headers::{Headers, Refused, uncompleted};
pub use joining::Joiner;
pub use offload::{Gso, Offload, OffloadError};
pub use segmentation::{Arena, MAX_PIECES};
pub use sys::Segment;
pub(crate) use sys::copy;
