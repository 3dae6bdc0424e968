//! Open-loop packets at a fixed rate, each timed one way from its *intended* send time, so that a
//! generator that fell behind shows as latency instead of hiding it (coordinated omission).
//!
//! The time ends when the receiving *program* has the packet, after its wake-up, and not when its kernel stamped it.
//! The studies ask for an application's latency in a container or a guest, and the wake-up is a large and different
//! part of that in each. The floor, measured the same way, says how much of a result is the program's. (The probe can
//! use the kernel's timestamps; the test against a known delay does, to be free of the scheduler.)

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::{ClockMap, Counters};
use latlab_samples::Sample;
use latlab_wire::samples::{self, Record, SampleKind, flags};

use crate::context::Context;
use crate::endpoint::Output;
use crate::error::Error;
use crate::measured::Measured;
use crate::pin::Pins;
use crate::probes::{self, HANDOVER_TIMEOUT, Load};
use crate::{actions, clock, floor, memory};

/// Measures once. Fails when an endpoint fails, or the clocks cannot be compared.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    let (sender, receiver) = (context.sender(), context.receiver());
    let max_packets = probes::packets_with_slack(context);
    // One record at each end.
    memory::require_records(max_packets, 2)?;
    let floor = floor::packets(context)?;
    actions::prepare(context)?;
    let pins = Pins::of(context);
    let before = clock::compare(context.lab, sender, receiver)?;
    let bind = context.any();
    let (sink, port) = probes::sink(context, receiver, &bind, max_packets, pins.receiver)?;
    let to = SocketAddr::new(context.reach.address, port).to_string();
    let load = Load::of(context, &to);
    let source = probes::source(context, &load, pins.sender)?;
    let warmup = Duration::from_millis(load.warmup_ms);
    let (sent, acted) = actions::beside(context, source, warmup)?;
    probes::await_stragglers(context);
    let received = sink.stop(HANDOVER_TIMEOUT)?;
    no_room(receiver, &received)?;
    let after = clock::compare(context.lab, sender, receiver)?;
    let start = sent.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let map = before.zip(after).map(|(b, a)| clock::map(b, a, start));
    let mut measured = join(&sent, &received, start, map.as_ref());
    measured.floor = Some(floor);
    measured.actions = acted.records;
    measured.clock = map;
    measured.add_endpoint("sender", sender, &sent);
    measured.add_endpoint("receiver", receiver, &received);
    Ok(measured)
}

/// Packets that arrived and could not be recorded would count as lost.
fn no_room(node: &str, received: &Output) -> Result<(), Error> {
    match received.report.as_ref().map(|report| &report.counters) {
        Some(samples::Counters::Sink(counters)) if counters.no_room > 0 => Err(Error::NoRoom {
            node: node.into(),
            packets: counters.no_room,
        }),
        _ => Ok(()),
    }
}

/// Matches received packets with sent ones by sequence number. Times are relative to `start` on the
/// sender's clock, to which `map` takes the receiver's where the two differ.
pub fn join(sent: &Output, received: &Output, start: i64, map: Option<&ClockMap>) -> Measured {
    let measured = |r: &&Record| !r.has(flags::WARM_UP | flags::NOT_SENT);
    let mut counters = Counters::default();
    let mut index: HashMap<u32, usize> = HashMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for record in sent.of(SampleKind::Source).filter(measured) {
        index.insert(record.sequence, samples.len());
        samples.push(Sample {
            seq: samples.len() as u64,
            intended_ns: record.start_ns as i64 - start,
            sent_ns: record.end_ns as i64 - start,
            ..Sample::default()
        });
    }
    // Packets of the warm-up are not unmatched.
    let warmup = sent
        .of(SampleKind::Source)
        .filter(|r| r.has(flags::WARM_UP));
    let last_warmup = warmup.map(|r| r.sequence).max();
    let mut arrival = 0;
    for record in received.of(SampleKind::Sink) {
        let Some(&at) = index.get(&record.sequence) else {
            counters.unmatched += u64::from(last_warmup.is_none_or(|last| record.sequence > last));
            continue;
        };
        if record.has(flags::DUPLICATE) {
            counters.duplicated += 1;
            continue;
        }
        counters.reordered += u64::from(record.has(flags::REORDERED));
        let sample = &mut samples[at];
        let received_ns = clock::to_sender(map, record.end_ns as i64, start);
        sample.received_ns = Some(received_ns);
        sample.latency_ns = Some(received_ns - sample.intended_ns);
        sample.arrival = Some(arrival);
        arrival += 1;
    }
    if let Some(samples::Counters::Sink(c)) = received.report.as_ref().map(|r| &r.counters) {
        counters.corrupted = c.corrupt;
        counters.unmatched += c.foreign;
    }
    counters.sent = samples.len() as u64;
    counters.received = arrival as u64;
    counters.lost = counters.sent - counters.received;
    Measured {
        samples,
        counters,
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(
        kind: SampleKind,
        sequence: u32,
        flags: u16,
        start_ns: u64,
        end_ns: u64,
    ) -> (SampleKind, Record) {
        (
            kind,
            Record {
                sequence,
                flow: 0,
                flags,
                start_ns,
                end_ns,
            },
        )
    }

    #[test]
    fn every_sent_packet_is_accounted_for() {
        use SampleKind::{Sink, Source};
        let sent = Output {
            records: vec![
                record(Source, 0, flags::WARM_UP, 900, 901),
                record(Source, 1, 0, 1000, 1005),
                record(Source, 2, 0, 1100, 1103),
                record(Source, 3, 0, 1200, 1201),
            ],
            report: None,
        };
        let received = Output {
            records: vec![
                record(Sink, 0, 0, 900, 950),
                record(Sink, 3, 0, 1200, 1260),
                record(Sink, 1, flags::REORDERED, 1000, 1300),
                record(Sink, 1, flags::DUPLICATE, 1000, 1310),
                record(Sink, 77, 0, 5, 1320),
            ],
            report: None,
        };
        let m = join(&sent, &received, 1000, None);
        let c = m.counters;
        assert_eq!((c.sent, c.received, c.lost), (3, 2, 1));
        assert_eq!((c.duplicated, c.reordered, c.unmatched), (1, 1, 1));
        assert_eq!(m.samples[0].latency_ns, Some(300), "from the intended time");
        assert_eq!(m.samples[0].arrival, Some(1));
        assert_eq!(m.samples[1].received_ns, None);
        assert_eq!(m.samples[2].arrival, Some(0));
    }
}
