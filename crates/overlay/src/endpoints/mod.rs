//! The two halves of every port and link: a guest's rings, a tap, a link's socket.
//!
//! Receiving and sending are apart: one dispatcher receives from a port, and whichever has a frame for it sends.
//!
//! - [`Receive`]: a receiving half; [`Transmit`]: a sending half
//! - [`Counters`], [`DropReason`]: statistics of a port

mod counters;
mod drop_reason;
pub(crate) mod port_id;
mod receive;
mod transmit;

pub use counters::{Counters, Traffic, add_unshared};
pub use drop_reason::DropReason;
pub use port_id::PortId;
pub use receive::Receive;
pub use transmit::Transmit;
