//! When the kernel took packets of ours from an interface, noted by the device that forwards them.
//!
//! The stamp is set where the frame leaves the other end of the wire, before anything of the device's and behind
//! everything of the sender's, a tap included. So it shows the device's own time, with and without taps.

use latlab_wire::probe::{HEADER_BYTES, PacketRepr};
use latlab_wire::samples::{Record, flags};

use crate::error::Result;
use crate::packets::record_of;
use crate::setup::touched_records;
use crate::time::OffsetLine;

/// Before the payload: the virtio header of packet sockets, Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 10 + 14 + 20 + 8;

pub struct Arrivals {
    pub records: Vec<Record>,
    room: usize,
}

impl Arrivals {
    pub fn with_room(count: u64) -> Result<Arrivals> {
        Ok(Arrivals {
            records: touched_records(count)?,
            room: count as usize,
        })
    }

    /// A frame as a packet socket hands it over, and the kernel's `CLOCK_REALTIME` stamp of it.
    pub fn note(&mut self, frame: &[u8], kernel_ns: Option<u64>) {
        let payload = frame.get(HEADERS..).filter(|p| p.len() >= HEADER_BYTES);
        let packet = payload.and_then(|p| PacketRepr::parse(p).ok());
        let (Some(packet), true) = (packet, self.records.len() < self.room) else {
            return;
        };
        let flag = match kernel_ns {
            Some(_) => flags::KERNEL_STAMP,
            None => flags::STAMP_MISSING,
        };
        let end_ns = kernel_ns.unwrap_or(0);
        self.records.push(record_of(&packet, flag, end_ns));
    }

    /// Maps the stamps to the clock of all other times.
    pub fn conclude(&mut self, line: &OffsetLine) {
        let stamped = self.records.iter_mut();
        for record in stamped.filter(|record| record.has(flags::KERNEL_STAMP)) {
            record.end_ns = line.monotonic_ns(record.end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_ours_are_noted_as_long_as_there_is_room() {
        let mut frame = vec![0; HEADERS + HEADER_BYTES];
        let mut arrivals = Arrivals::with_room(2).unwrap();
        arrivals.note(&frame, Some(5));
        arrivals.note(&frame[..20], Some(5));
        assert!(arrivals.records.is_empty(), "somebody else's");
        for sequence in 7..10 {
            let ours = PacketRepr {
                flow: 1,
                sequence,
                intended_ns: 0,
            };
            ours.emit(&mut frame[HEADERS..]);
            arrivals.note(&frame, (sequence == 7).then_some(1_000));
        }
        let found: Vec<_> = arrivals
            .records
            .iter()
            .map(|r| (r.sequence, r.end_ns))
            .collect();
        assert_eq!(found, [(7, 1_000), (8, 0)]);
        assert!(arrivals.records[1].has(flags::STAMP_MISSING));
    }
}
