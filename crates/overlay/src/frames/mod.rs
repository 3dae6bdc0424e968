//! Frames on their way through the switch.
//!
//! A frame is never copied as a whole before it is known where it goes. Its first bytes (all the
//! headers that the switch looks at) are copied once into the batch, because a hostile guest may
//! change its memory while it is read: what was checked is what is sent. The rest stays where the
//! sender has it and is borrowed until the batch is complete.

mod batch;
mod offload;
mod sys;

pub use batch::{Batch, Frame, HEAD, NETWORK_UNKNOWN, TooShort};
pub use offload::{Gso, Offload, OffloadError};
pub use sys::Segment;
