//! The record of a packet.

use latlab_wire::probe::PacketRepr;
use latlab_wire::samples::Record;

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
