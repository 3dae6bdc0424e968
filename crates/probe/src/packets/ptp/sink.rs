//! The probe `ptp-sink`: receives packets and records when the card and when the probe had each.

use std::os::fd::{AsFd, OwnedFd};

use latlab_wire::samples::{Counters, Phase, Probe, Record, Report, SampleKind, SinkCounters};
use rustix::net::RecvFlags;

use super::frame;
use super::interface::{BYTES_PER_PACKET, Interface};
use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::net;
use crate::output::Output;
use crate::packets::record::record_of;
use crate::packets::sink::{DEFAULT_MAX_PACKETS, judged};
use crate::setup::{Common, touched_records};
use crate::stop::Stop;
use crate::sys::{self, Received, Who};
use crate::time;

/// A packet socket cannot be shut down, so the end of the input is looked for now and then.
const WAIT_NS: u64 = 10_000_000;

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let interface = options.required("interface", "the name of an interface")?;
    let max_packets = options.number("max-packets", 1, u64::from(u32::MAX))?;
    let max_packets = max_packets.unwrap_or(DEFAULT_MAX_PACKETS);
    options.finish("ptp-sink")?;
    common.check_memory(max_packets, BYTES_PER_PACKET)?;
    common.apply()?;
    let interface = Interface::open(interface)?;
    let socket = interface.socket()?;
    let mut arrived = Arrived {
        records: touched_records(max_packets)?,
        stamps: touched_records(max_packets)?,
        counters: SinkCounters {
            card_clock: Some(interface.clock),
            ..SinkCounters::default()
        },
    };
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    common.ready(output, Probe::Sink, None, None)?;

    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns();
    let result = arrived.receive(&socket, &stop);
    let ended_ns = time::now_ns();
    let health = watch.end(&[socket.as_fd()]);

    output.progress(Phase::Emitting, None)?;
    let counters = Counters::Sink(judged(&mut arrived.records, &arrived.counters));
    output.samples(SampleKind::Sink, &arrived.records)?;
    output.samples(SampleKind::Card, &arrived.stamps)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters,
        health,
    })?;
    result
}

struct Arrived {
    records: Vec<Record>,
    stamps: Vec<Record>,
    counters: SinkCounters,
}

impl Arrived {
    /// Receives until told to stop, and then what the socket still holds.
    fn receive(&mut self, socket: &OwnedFd, stop: &Stop) -> Result<()> {
        let mut frame = vec![0xff; 1 << 14];
        loop {
            let is_last = stop.requested();
            match sys::receive_with(socket.as_fd(), &mut frame, RecvFlags::DONTWAIT) {
                Ok(Received { length, stamp, .. }) => {
                    self.take(&frame[..length], stamp, time::now_ns());
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if is_last {
                        return Ok(());
                    }
                    net::wait_for_input(socket, WAIT_NS)
                        .map_err(|error| Error::Peer(format!("wait for packets: {error}")))?;
                }
                Err(error) => return Err(Error::Peer(format!("receive packets: {error}"))),
            }
        }
    }

    fn take(&mut self, frame: &[u8], stamp: Option<u64>, now_ns: u64) {
        self.counters.received += 1;
        let Some(packet) = frame::parse(frame) else {
            self.counters.foreign += 1;
            return;
        };
        if self.records.len() == self.records.capacity() {
            self.counters.no_room += 1;
            return;
        }
        let record = record_of(&packet, 0, now_ns);
        self.records.push(record);
        match stamp {
            None => self.counters.stamps_missing += 1,
            Some(stamp) => self.stamps.push(Record {
                start_ns: now_ns,
                end_ns: stamp,
                ..record
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use latlab_wire::probe::PacketRepr;

    use super::*;

    #[test]
    fn packets_without_a_stamp_and_messages_of_others_are_counted() {
        let mut arrived = Arrived {
            records: Vec::with_capacity(3),
            stamps: Vec::with_capacity(3),
            counters: SinkCounters::default(),
        };
        let mut frame = frame::template([2; 6], [4; 6], 0);
        arrived.take(&frame, Some(1), 2);
        for (sequence, stamp) in [(0, Some(100)), (2, None), (1, Some(300)), (3, Some(400))] {
            let packet = PacketRepr {
                flow: 0,
                sequence,
                intended_ns: 7,
            };
            frame::stamp(&mut frame, packet);
            arrived.take(&frame, stamp, 1000 + u64::from(sequence));
        }
        let counted = judged(&mut arrived.records, &arrived.counters);
        assert_eq!((counted.received, counted.foreign), (5, 1));
        assert_eq!((counted.recorded, counted.no_room), (3, 1));
        assert_eq!((counted.stamps_missing, counted.reordered), (1, 1));
        let stamps = arrived.stamps.iter();
        let stamps: Vec<_> = stamps.map(|r| (r.sequence, r.start_ns, r.end_ns)).collect();
        assert_eq!(stamps, [(0, 1000, 100), (1, 1001, 300)]);
    }
}
