//! The probe `sink`: receives packets and records when each came.
//!
//! In the measured loop it only receives, reads the clock, checks the header and writes a record;
//! duplicates and reordering are found afterwards. Its timestamp is taken after the system call
//! returned, so it contains the wake-up, as what an application sees does. The kernel's own stamp,
//! from when the packet entered the stack, can be asked for instead; it is on `CLOCK_REALTIME`,
//! whose offset is measured before and after the run and interpolated between. With that, the receiver
//! may look for packets now and then only, so that what sends to it need not wake it up.
//!
//! While one socket of the machine asks for such stamps, the kernel reads the clock for every frame of every interface:
//! where that is slow, bulk traffic over a veth lost a third of its rate.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use latlab_wire::probe::PacketRepr;
use latlab_wire::samples::{
    Counters, Phase, Probe, Record, Report, SampleKind, SinkCounters, Stamp, flags,
};
use rustix::io::Errno;

use super::record::record_of;
use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::net::{self, Socket};
use crate::output::Output;
use crate::setup::{Common, Poll, touched_records};
use crate::stop::Stop;
use crate::sys::{self, Who};
use crate::time::{self, OffsetLine};

pub(super) const DEFAULT_MAX_PACKETS: u64 = 1 << 20;

/// Default receive buffer of a receiving probe, in bytes: a tenth of a second of
/// 100,000 small packets a second, at the kernel's ~800 bytes for each.
const DEFAULT_RECEIVE_BUFFER_BYTES: u64 = 8 << 20;

/// A record, and its place in the order that finds duplicates.
const BYTES_PER_PACKET: u64 = (size_of::<Record>() + size_of::<u32>()) as u64;

struct Settings {
    bind: SocketAddr,
    max_packets: u64,
    receive_buffer_bytes: usize,
    flow: Option<u16>,
    stamp: Stamp,
    poll: Poll,
    /// Time to sleep when the socket is empty, instead of waiting for it: then no packet wakes the sink.
    doze: Duration,
}

impl Settings {
    fn take(options: &mut Options) -> Result<Settings> {
        Ok(Settings {
            bind: options.address("bind")?,
            max_packets: options
                .number("max-packets", 1, u64::from(u32::MAX))?
                .unwrap_or(DEFAULT_MAX_PACKETS),
            // The kernel doubles it, in an int.
            receive_buffer_bytes: options
                .number("receive-buffer", 1, i32::MAX as u64 / 2)?
                .unwrap_or(DEFAULT_RECEIVE_BUFFER_BYTES) as usize,
            flow: options
                .number("flow", 0, u64::from(u16::MAX))?
                .map(|flow| flow as u16),
            stamp: options
                .choice("stamp", &[("user", Stamp::User), ("kernel", Stamp::Kernel)])?
                .unwrap_or(Stamp::User),
            poll: Poll::take(options, Poll::Block)?,
            doze: Duration::from_micros(options.number("doze-us", 0, 1_000_000)?.unwrap_or(0)),
        })
    }
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let settings = Settings::take(&mut options)?;
    options.finish("sink")?;
    common.check_memory(settings.max_packets, BYTES_PER_PACKET)?;
    common.apply()?;
    let mut catch = Catch::new(touched_records(settings.max_packets)?);
    let socket = net::udp_at(settings.bind)?;
    let granted = net::set_receive_buffer(&socket, settings.receive_buffer_bytes)?;
    if settings.stamp == Stamp::Kernel {
        sys::enable_kernel_stamps(socket.as_fd())
            .map_err(|error| Error::machine("ask for kernel timestamps", error))?;
    }
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    stop.wake(&socket);
    let local = net::local_address(&socket)?;
    common.ready(output, Probe::Sink, Some(local), Some(granted))?;

    let watch = Watch::start(Who::Thread);
    let offset_start_ns = time::realtime_offset_ns();
    let started_ns = time::now_ns();
    let result = catch.receive(&socket, &settings, &stop);
    let ended_ns = time::now_ns();
    let offset_end_ns = time::realtime_offset_ns();
    let health = watch.end(&[socket.as_fd()]);

    output.progress(Phase::Emitting, None)?;
    let line = OffsetLine {
        started_ns,
        ended_ns,
        offset_start_ns,
        offset_end_ns,
    };
    let counters = Counters::Sink(catch.conclude(&settings, &line));
    output.samples(SampleKind::Sink, &catch.records)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters,
        health,
    })?;
    result
}

struct Catch {
    records: Vec<Record>,
    counters: SinkCounters,
}

impl Catch {
    fn new(records: Vec<Record>) -> Catch {
        Catch {
            records,
            counters: SinkCounters::default(),
        }
    }

    /// Receives until told to stop, and then what the socket still holds.
    fn receive(&mut self, socket: &Socket, settings: &Settings, stop: &Stop) -> Result<()> {
        // Not zero, so that its pages are touched; no datagram is longer.
        let mut buffer = vec![0xff; 1 << 16];
        loop {
            let stopping = stop.requested();
            let poll = if stopping || !settings.doze.is_zero() {
                Poll::Busy
            } else {
                settings.poll
            };
            let (length, kernel_ns) = match receive_once(socket, &mut buffer, settings.stamp, poll)
            {
                Ok(Some(received)) => received,
                Ok(None) if stopping => return Ok(()),
                Ok(None) => {
                    if !settings.doze.is_zero() {
                        std::thread::sleep(settings.doze);
                    }
                    continue;
                }
                Err(error) => return Err(Error::Peer(format!("receive packets: {error}"))),
            };
            let received_ns = time::now_ns();
            // The result of a receive that slept while the socket was shut down.
            if length == 0 && !stopping && stop.requested() {
                continue;
            }
            self.take(&buffer[..length], kernel_ns, received_ns, settings);
        }
    }

    fn take(&mut self, payload: &[u8], kernel: Option<u64>, now_ns: u64, settings: &Settings) {
        self.counters.received += 1;
        let Ok(packet) = PacketRepr::parse(payload) else {
            self.counters.corrupt += 1;
            return;
        };
        if settings.flow.is_some_and(|flow| flow != packet.flow) {
            self.counters.foreign += 1;
            return;
        }
        // Pushing beyond would move all the records in the middle of the run.
        if self.records.len() as u64 >= settings.max_packets {
            self.counters.no_room += 1;
            return;
        }
        let stamp_flag = match (settings.stamp, kernel) {
            (Stamp::User, _) => 0,
            (Stamp::Kernel, Some(_)) => flags::KERNEL_STAMP,
            (Stamp::Kernel, None) => flags::STAMP_MISSING,
        };
        self.counters.stamps_missing += u64::from(stamp_flag == flags::STAMP_MISSING);
        let end_ns = kernel.unwrap_or(now_ns);
        self.records.push(record_of(&packet, stamp_flag, end_ns));
    }

    /// Maps the stamps, marks duplicates and reordering, and counts.
    fn conclude(&mut self, settings: &Settings, line: &OffsetLine) -> SinkCounters {
        for record in &mut self.records {
            if record.has(flags::KERNEL_STAMP) {
                record.end_ns = line.monotonic_ns(record.end_ns);
            }
        }
        let by_kernel = settings.stamp == Stamp::Kernel;
        SinkCounters {
            stamp: settings.stamp,
            realtime_offset_start_ns: by_kernel.then_some(line.offset_start_ns),
            realtime_offset_end_ns: by_kernel.then_some(line.offset_end_ns),
            ..judged(&mut self.records, &self.counters)
        }
    }
}

/// Length and kernel stamp of one datagram; None when there is none, or the wait was interrupted.
fn receive_once(
    socket: &Socket,
    buffer: &mut [u8],
    stamp: Stamp,
    poll: Poll,
) -> io::Result<Option<(usize, Option<u64>)>> {
    if stamp == Stamp::User {
        return Ok(net::receive(socket, buffer, poll)?.map(|length| (length, None)));
    }
    match sys::receive_with(socket.as_fd(), buffer, poll.flags()) {
        Ok(received) => Ok(Some((received.length, received.stamp))),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::INTR) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Marks duplicates and reordering, and adds the records to what was counted.
pub(super) fn judged(records: &mut [Record], counted: &SinkCounters) -> SinkCounters {
    mark_duplicates(records);
    let flows = mark_reordered(records);
    let count = |bit| records.iter().filter(|record| record.has(bit)).count() as u64;
    SinkCounters {
        recorded: records.len() as u64,
        duplicates: count(flags::DUPLICATE),
        reordered: count(flags::REORDERED),
        flows,
        ..counted.clone()
    }
}

/// Marks every packet whose flow and sequence came before, by sorting places and not packets.
fn mark_duplicates(records: &mut [Record]) {
    let mut order: Vec<u32> = (0..records.len() as u32).collect();
    let key = |at: u32| (records[at as usize].flow, records[at as usize].sequence);
    order.sort_unstable_by_key(|&at| (key(at), at));
    let again: Vec<u32> = order
        .windows(2)
        .filter(|pair| key(pair[0]) == key(pair[1]))
        .map(|pair| pair[1])
        .collect();
    for at in again {
        records[at as usize].flags |= flags::DUPLICATE;
    }
}

/// Marks every packet, duplicates apart, that came after a later one of its flow: type-P-reordered
/// in RFC 4737, section 3.3. Gives the number of flows.
fn mark_reordered(records: &mut [Record]) -> u32 {
    let mut highest: HashMap<u16, u32> = HashMap::new();
    for record in records
        .iter_mut()
        .filter(|record| !record.has(flags::DUPLICATE))
    {
        let highest = highest.entry(record.flow).or_insert(record.sequence);
        if record.sequence < *highest {
            record.flags |= flags::REORDERED;
        }
        *highest = record.sequence.max(*highest);
    }
    highest.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            bind: "127.0.0.1:0".parse().unwrap(),
            max_packets: 4,
            receive_buffer_bytes: 1,
            flow: None,
            stamp: Stamp::User,
            poll: Poll::Block,
            doze: Duration::ZERO,
        }
    }

    fn payload(flow: u16, sequence: u32) -> Vec<u8> {
        let mut bytes = vec![0; 18];
        PacketRepr {
            flow,
            sequence,
            intended_ns: 5,
        }
        .emit(&mut bytes);
        bytes
    }

    const LINE: OffsetLine = OffsetLine {
        started_ns: 1000,
        ended_ns: 2000,
        offset_start_ns: 500,
        offset_end_ns: 520,
    };

    #[test]
    fn every_packet_is_counted_once_and_for_what_it_is() {
        let settings = Settings {
            flow: Some(1),
            ..settings()
        };
        let mut catch = Catch::new(Vec::new());
        for bytes in [
            payload(1, 0),
            payload(2, 0),
            b"noise".to_vec(),
            payload(1, 0),
            payload(1, 7),
        ] {
            catch.take(&bytes, None, 9, &settings);
        }
        for sequence in [5, 8] {
            catch.take(&payload(1, sequence), None, 9, &settings);
        }
        let counters = catch.conclude(&settings, &LINE);
        assert_eq!(
            (counters.received, counters.recorded, counters.no_room),
            (7, 4, 1)
        );
        assert_eq!(
            (counters.corrupt, counters.foreign, counters.flows),
            (1, 1, 1)
        );
        assert_eq!((counters.duplicates, counters.reordered), (1, 1));
        let flags: Vec<u16> = catch.records.iter().map(|record| record.flags).collect();
        assert_eq!(flags, [0, flags::DUPLICATE, 0, flags::REORDERED]);
    }

    #[test]
    fn flows_are_judged_apart() {
        let record = |flow, sequence| Record {
            flow,
            sequence,
            ..Record::default()
        };
        let mut records = vec![
            record(1, 5),
            record(2, 1),
            record(1, 4),
            record(2, 5),
            record(1, 5),
        ];
        mark_duplicates(&mut records);
        assert_eq!(mark_reordered(&mut records), 2);
        let flags: Vec<u16> = records.iter().map(|record| record.flags).collect();
        assert_eq!(flags, [0, 0, flags::REORDERED, 0, flags::DUPLICATE]);
    }

    #[test]
    fn kernel_stamps_are_mapped_and_missing_ones_marked() {
        let settings = Settings {
            stamp: Stamp::Kernel,
            ..settings()
        };
        let mut catch = Catch::new(Vec::new());
        catch.take(&payload(1, 0), Some(2010), 1600, &settings);
        catch.take(&payload(1, 1), None, 1700, &settings);
        let counters = catch.conclude(&settings, &LINE);
        assert_eq!(counters.stamps_missing, 1);
        assert_eq!(counters.realtime_offset_end_ns, Some(520));
        let stamps: Vec<(u16, u64)> = catch.records.iter().map(|r| (r.flags, r.end_ns)).collect();
        assert_eq!(
            stamps,
            [(flags::KERNEL_STAMP, 1500), (flags::STAMP_MISSING, 1700)]
        );
    }

    #[test]
    fn the_offset_is_interpolated_and_never_extrapolated() {
        assert_eq!(LINE.monotonic_ns(1500), 1000);
        assert_eq!(LINE.monotonic_ns(2010), 1500);
        assert_eq!(LINE.monotonic_ns(2520), 2000);
        assert_eq!(LINE.monotonic_ns(5500), 4980);
        assert_eq!(LINE.monotonic_ns(0), 0);
    }
}
