//! The probe `ptp-source`: sends packets on a schedule and collects the times at which its card sent them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use latlab_wire::samples::{
    Counters, Phase, Probe, Record, Report, SampleKind, SourceCounters, Via, flags,
};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};

use super::frame;
use super::interface::{BYTES_PER_PACKET, Interface};
use crate::args::{EthernetAddress, Options};
use crate::error::{Error, Result};
use crate::health::{self, Watch};
use crate::output::Output;
use crate::packets::record::record_of;
use crate::packets::schedule::Plan;
use crate::packets::source::{DEFAULT_SPIN_US, LEAD_NS};
use crate::packets::way::packet;
use crate::setup::{Common, touched_records};
use crate::sys::{self, Who};
use crate::time::{self, Pause};

const FCS_BYTES: u64 = 4;
const MAX_FRAME_BYTES: u64 = 9018;
/// Time for the stamps of the last packets: a driver may fetch them from a work queue.
const LAST_STAMPS: Duration = Duration::from_millis(200);

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let interface = options.required("interface", "the name of an interface")?;
    let EthernetAddress(to) = options.required("to", "an Ethernet address")?;
    let smallest = frame::MIN_BYTES as u64 + FCS_BYTES;
    let bytes = options.number("bytes", smallest, MAX_FRAME_BYTES)?;
    let bytes = bytes.unwrap_or(smallest);
    let plan = Plan::take(&mut options)?;
    options.finish("ptp-source")?;
    common.check_memory(plan.most_packets(), BYTES_PER_PACKET)?;
    plan.check()?;
    common.apply()?;
    let interface = Interface::open(interface)?;
    let socket = interface.socket()?;
    let mut records = touched_records(plan.most_packets())?;
    plan.fill(&mut records);
    let length = (bytes - FCS_BYTES) as usize;
    let mut sender = Sender {
        frame: frame::template(interface.address, to, length),
        stamps: touched_records(records.len() as u64)?,
        socket,
    };
    common.ready(output, Probe::Source, None, None)?;
    output.progress(Phase::Running, records.last().map(|last| last.start_ns))?;

    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns() + LEAD_NS;
    let result = sender.send_all(&mut records, started_ns);
    let ended_ns = time::now_ns();
    let mut health = watch.end(&[]);

    output.progress(Phase::Emitting, None)?;
    health.lateness = Some(health::lateness(&records));
    output.samples(SampleKind::Source, &records)?;
    output.samples(SampleKind::Card, &sender.stamps)?;
    let counters = plan.counters(&records, Via::Packet, bytes);
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Source(SourceCounters {
            card_clock: Some(interface.clock),
            stamps_missing: counters.sent.saturating_sub(sender.stamps.len() as u64),
            ..counters
        }),
        health,
    })?;
    result
}

struct Sender {
    socket: OwnedFd,
    frame: Vec<u8>,
    /// In the order in which they came.
    stamps: Vec<Record>,
}

impl Sender {
    fn send_all(&mut self, records: &mut Vec<Record>, started_ns: u64) -> Result<()> {
        let pause = Pause::spinning(DEFAULT_SPIN_US * 1_000);
        for at in 0..records.len() {
            let record = &mut records[at];
            record.start_ns += started_ns;
            pause.until(record.start_ns);
            frame::stamp(&mut self.frame, packet(record));
            record.end_ns = time::now_ns();
            match send(&self.socket, &self.frame, SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::NOBUFS | Errno::AGAIN | Errno::NOMEM | Errno::NETDOWN) => {
                    record.flags |= flags::NOT_SENT;
                }
                Err(error) => {
                    let sequence = record.sequence;
                    records.truncate(at);
                    return Err(Error::Peer(format!("send packet {sequence}: {error}")));
                }
            }
            self.collect()?;
        }
        let sent = records.iter().filter(|record| !record.has(flags::NOT_SENT));
        let sent = sent.count();
        let end = time::now_ns() + LAST_STAMPS.as_nanos() as u64;
        while self.stamps.len() < sent && time::now_ns() < end {
            std::thread::sleep(Duration::from_millis(1));
            self.collect()?;
        }
        Ok(())
    }

    /// Takes the stamps that are there. The kernel returns each with the frame as it was sent.
    fn collect(&mut self) -> Result<()> {
        let mut frame = [0; MAX_FRAME_BYTES as usize];
        loop {
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            let received = match sys::receive_with(self.socket.as_fd(), &mut frame, flags) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Error::Peer(format!("read a timestamp: {error}"))),
            };
            let packet = frame::parse(&frame[..received.length]);
            let (Some(packet), Some(stamp)) = (packet, received.stamp) else {
                continue;
            };
            // Pushing beyond would move all the records in the middle of the run.
            if self.stamps.len() < self.stamps.capacity() {
                self.stamps.push(record_of(&packet, 0, stamp));
            }
        }
    }
}
