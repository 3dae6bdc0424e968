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
mod route;
mod schedule;
pub mod sink;
pub mod source;
mod way;

use latlab_wire::probe::PacketRepr;
use latlab_wire::samples::Record;

pub const DEFAULT_MAX_PACKETS: u64 = 1 << 20;

/// Default receive buffer of a receiving probe, in bytes: a tenth of a second of
/// 100,000 small packets a second, at the kernel's ~800 bytes for each.
pub const DEFAULT_RECEIVE_BUFFER_BYTES: u64 = 8 << 20;

/// A record of a packet, with the time of its arrival or stamp.
pub fn record_of(packet: &PacketRepr, flags: u16, end_ns: u64) -> Record {
    Record {
        sequence: packet.sequence,
        flow: packet.flow,
        flags,
        start_ns: packet.intended_ns,
        end_ns,
    }
}
