//! Open-loop packets: a source that sends on a schedule fixed in advance, and a sink.
//!
//! The loop is *open*: when a packet goes out does not depend on whether anything came back, or
//! arrived at all. Each packet carries the time it was *intended* to be sent, and its delay counts
//! from then. If source or path stall, the packets that should have left meanwhile carry the stall
//! in their delay, instead of silently not being sent ("coordinated omission").
//!
//! The source's own lateness is part of such a delay; the source records it for every packet, so
//! that a reader can take it out, or call the run off.

pub mod discard;
mod frame;
pub mod ptp;
mod record;
mod route;
mod schedule;
pub mod sink;
pub mod source;
mod way;

pub use record::record_of;
