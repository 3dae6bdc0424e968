//! The probe `source`: sends packets on a schedule that is fixed before it begins.
//!
//! The source sends each packet at its time or, when that has passed, at once, together with others that are late
//! where the transmit path takes more than one ([`super::way`]). It never drops a slot and never waits for room in the
//! kernel. A packet the kernel does not take is recorded as not sent, because it is the path that lost it.
//!
//! The source sleeps until shortly before each slot and spins the rest. Spinning through would keep a CPU
//! from everything else at any rate. Sleeping through would be late by a timer wake-up each time,
//! which is 10 to 40 µs on the virtual machine where the default margin of 60 µs was chosen.

use std::net::{IpAddr, SocketAddr};

use latlab_wire::probe::HEADER_BYTES;
use latlab_wire::samples::{
    Counters, Phase, Probe, Record, Report, SampleKind, SourceCounters, Via,
};

use super::schedule::Plan;
use super::way::Way;
use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::{self, Watch};
use crate::net::{self, Socket};
use crate::output::Output;
use crate::setup::{Common, touched_records};
use crate::sys::Who;
use crate::time::{self, Pause};

/// Default time of spinning before each slot. See [`Pause`].
pub(super) const DEFAULT_SPIN_US: u64 = 60;
/// From "ready" to the first packet: more than reading the kernel's counters takes.
pub(super) const LEAD_NS: u64 = 2_000_000;
/// So that a burst after a stall fits.
const SEND_BUFFER_BYTES: usize = 4 << 20;
const ETHERNET_AND_FCS_BYTES: u64 = 14 + 4;
const UDP_HEADER_BYTES: u64 = 8;
/// The smallest Ethernet frame, FCS included.
const SMALLEST_FRAME_BYTES: u64 = 64;

/// A record, and its lateness afterwards.
const BYTES_PER_PACKET: u64 = (size_of::<Record>() + size_of::<u64>()) as u64;

struct Settings {
    to: SocketAddr,
    from: Option<IpAddr>,
    frame_bytes: u64,
    plan: Plan,
    pause: Pause,
    via: Via,
}

impl Settings {
    fn take(options: &mut Options) -> Result<Settings> {
        let to = options.address("to")?;
        let plan = Plan::take(options)?;
        let spin_us = options
            .number("spin-us", 0, 1_000_000)?
            .unwrap_or(DEFAULT_SPIN_US);
        Ok(Settings {
            to,
            from: options.value("bind", "ADDR without port")?,
            frame_bytes: frame_bytes(options, to)?,
            plan,
            pause: Pause::spinning(spin_us * 1_000),
            via: options
                .choice(
                    "via",
                    &[
                        ("socket", Via::Socket),
                        ("packet", Via::Packet),
                        ("xdp", Via::Xdp),
                    ],
                )?
                .unwrap_or(Via::Socket),
        })
    }

    fn payload_bytes(&self) -> u64 {
        self.frame_bytes - headers_bytes(self.to)
    }

    /// How its packets leave, with a socket a flow.
    fn way(&self) -> Result<(Way, SocketAddr)> {
        let mut sockets = Vec::new();
        for _ in 0..self.plan.flows {
            sockets.push(self.socket()?);
        }
        let local = net::local_address(&sockets[0])?;
        let payload_bytes = self.payload_bytes();
        let first = self.plan.flow;
        let way = Way::open(
            self.via,
            sockets,
            self.to,
            self.frame_bytes,
            payload_bytes,
            first,
        )?;
        Ok((way, local))
    }

    /// A socket that neither fragments nor waits.
    fn socket(&self) -> Result<Socket> {
        let socket = net::udp_to(self.to, self.from)?;
        net::set_send_buffer(&socket, SEND_BUFFER_BYTES)?;
        let mtu = u64::from(net::route_mtu(&socket, self.to.is_ipv6())?);
        let packet_bytes = self.frame_bytes - ETHERNET_AND_FCS_BYTES;
        if packet_bytes > mtu {
            return Err(Error::Usage(format!(
                "--bytes {}: the IP packet of {packet_bytes} bytes exceeds the MTU of {mtu} to {}",
                self.frame_bytes, self.to,
            )));
        }
        Ok(socket)
    }
}

fn headers_bytes(to: SocketAddr) -> u64 {
    let ip = if to.is_ipv6() { 40 } else { 20 };
    ETHERNET_AND_FCS_BYTES + ip + UDP_HEADER_BYTES
}

/// The frame's length: as given, else the smallest that Ethernet and the header allow.
fn frame_bytes(options: &mut Options, to: SocketAddr) -> Result<u64> {
    let smallest = SMALLEST_FRAME_BYTES.max(headers_bytes(to) + HEADER_BYTES as u64);
    let largest = headers_bytes(to) + net::MAX_DATAGRAM_BYTES as u64;
    Ok(options
        .number("bytes", smallest, largest)?
        .unwrap_or(smallest))
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let settings = Settings::take(&mut options)?;
    options.finish("source")?;
    let most_packets = settings.plan.most_packets();
    common.check_memory(most_packets, BYTES_PER_PACKET)?;
    settings.plan.check()?;
    common.apply()?;
    let (mut way, local) = settings.way()?;
    let mut records = touched_records(most_packets)?;
    settings.plan.fill(&mut records);
    common.ready(output, Probe::Source, Some(local), None)?;
    output.progress(Phase::Running, records.last().map(|last| last.start_ns))?;

    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns() + LEAD_NS;
    let result = send_all(&mut way, &settings.pause, &mut records, started_ns);
    let ended_ns = time::now_ns();
    // Nothing is received: its sockets drop nothing.
    let mut health = watch.end(&[]);

    output.progress(Phase::Emitting, None)?;
    health.lateness = Some(health::lateness(&records));
    output.samples(SampleKind::Source, &records)?;
    let (via, frame_bytes) = (settings.via, settings.frame_bytes);
    let counters = SourceCounters {
        network_errors: way.network_errors,
        payload_bytes: settings.payload_bytes() as u32,
        ..settings.plan.counters(&records, via, frame_bytes)
    };
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Source(counters),
        health,
    })?;
    result
}

/// Sends every packet of the schedule, and writes into its record when. On an error the records of
/// the packets that were not reached are removed.
fn send_all(
    way: &mut Way,
    pause: &Pause,
    records: &mut Vec<Record>,
    started_ns: u64,
) -> Result<()> {
    let mut at = 0;
    while at < records.len() {
        let now = pause.until(records[at].start_ns + started_ns);
        let behind = &records[at + 1..];
        let due = behind
            .iter()
            .take(way.batch() - 1)
            .take_while(|record| record.start_ns + started_ns <= now);
        let end = at + 1 + due.count();
        let batch = &mut records[at..end];
        for record in &mut *batch {
            record.start_ns += started_ns;
        }
        if let Err(error) = way.send(batch) {
            let sequence = batch[0].sequence;
            records.truncate(at);
            return Err(Error::Peer(format!("send packet {sequence}: {error}")));
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: &str, bytes: Option<&str>) -> Result<u64> {
        let args = bytes
            .iter()
            .flat_map(|bytes| ["--bytes", bytes])
            .map(Into::into);
        let mut options = Options::parse(args.collect::<Vec<_>>().into_iter()).unwrap();
        frame_bytes(&mut options, to.parse().unwrap())
    }

    #[test]
    fn the_smallest_frame_depends_on_the_ip_version() {
        assert_eq!(frame("127.0.0.1:1", None).unwrap(), 64);
        assert_eq!(frame("[::1]:1", None).unwrap(), 82);
        assert_eq!(frame("127.0.0.1:1", Some("1518")).unwrap(), 1518);
        assert!(frame("127.0.0.1:1", Some("63")).is_err());
        assert!(frame("[::1]:1", Some("81")).is_err());
        // 18 bytes of payload: the header and two more.
        assert_eq!(64 - headers_bytes("127.0.0.1:1".parse().unwrap()), 18);
    }
}
