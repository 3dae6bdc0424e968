//! Open-loop packets at a fixed rate, each timed one way from its *intended* send time, so that a
//! generator that fell behind shows as latency instead of hiding it (coordinated omission).
//!
//! The other end of the time is when the receiving *program* has the packet, after its wake-up, and
//! not when its kernel stamped it. The studies ask what an application gets in a container or a guest,
//! and being woken is a large and different part of that in each. How much of a result is the program
//! and not the link, the floor says, which is measured the same way. (The probe can use the kernel's
//! stamps; the test against a delay of known size does, to be free of the scheduler.)

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::{ClockMap, Counters};
use latlab_model::spec::{Probe, Via};
use latlab_samples::Sample;
use latlab_wire::samples::{self, Record, SampleKind, flags};

use crate::endpoint::{EndPoint, Error, Output};
use crate::pin::{self, Pins};
use crate::rr::strings;
use crate::trial::{self, Context, Measured, node_record};
use crate::{checks, clock, floor};

/// After its window an end point only has to hand over its records.
const AFTER: Duration = Duration::from_secs(60);
/// Bytes that a source takes for a packet, generously.
const RECORD_BYTES: u64 = 40;
/// How long a packet may still be under way after the last was sent; later ones are lost.
const STRAGGLERS: Duration = Duration::from_millis(300);

/// Measures once.
///
/// # Errors
/// When an end point fails, or the clocks cannot be compared.
pub fn measure(context: &Context<'_>) -> Result<Measured, trial::Error> {
    let m = context.measurement;
    let floor = floor::packets(context)?;
    let pins = Pins::of(context);
    let seconds = (m.duration.0 + m.warmup.0) as f64 / 1e9;
    // Room for duplicates too.
    let room = (m.rate as f64 * seconds * 1.2) as u64 + 1024;
    let before = clock::compare(context.lab, context.sender(), context.receiver())?;
    let (sink, port) = sink(context, context.receiver(), &context.any(0), room, pins)?;
    let to = SocketAddr::new(context.reach.address, port).to_string();
    let duration_ms = m.duration.0.div_ceil(1_000_000);
    let sent = send(
        context,
        context.sender(),
        (&to, m.via),
        m.rate,
        duration_ms,
        m.warmup.0 / 1_000_000,
        pins,
    )?;
    std::thread::sleep(STRAGGLERS);
    let received = sink.stop(AFTER)?;
    let after = clock::compare(context.lab, context.sender(), context.receiver())?;
    let start = sent.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let map = before.zip(after).map(|(b, a)| clock::map(b, a, start));
    let mut measured = join(&sent, &received, start, map.as_ref());
    measured.floor = Some(floor);
    measured.clock = map;
    for (role, node, output) in [
        ("sender", context.sender(), &sent),
        ("receiver", context.receiver(), &received),
    ] {
        if let Some(report) = &output.report {
            measured.nodes.push(node_record(node, role, report));
            measured.checks.extend(checks::of_report(role, report));
        }
    }
    Ok(measured)
}

/// Starts a sink in `node` and returns it with its port.
pub(crate) fn sink(
    context: &Context<'_>,
    node: &str,
    bind: &str,
    room: u64,
    pins: Pins,
) -> Result<(EndPoint, u16), Error> {
    let mut args = strings(&["sink", "--bind", bind, "--max-packets", &room.to_string()]);
    args.extend(pin::argument(pins.receiver));
    let mut sink = EndPoint::start_with_room(context.lab, node, &args, room)?;
    let ready = sink.ready()?;
    Ok((sink, ready.local.map_or(0, |a| a.port())))
}

/// Runs a source in `node` against `to` for a time.
pub(crate) fn send(
    context: &Context<'_>,
    node: &str,
    (to, via): (&str, Via),
    rate: u64,
    duration_ms: u64,
    warmup_ms: u64,
    pins: Pins,
) -> Result<Output, Error> {
    let m = context.measurement;
    let mut args = strings(&[
        "source",
        "--to",
        to,
        "--rate",
        &rate.to_string(),
        "--duration-ms",
        &duration_ms.to_string(),
        "--bytes",
        &m.size.to_string(),
        "--warmup-ms",
        &warmup_ms.to_string(),
        "--arrival",
        m.arrival.word(),
        "--burst",
        &m.burst.to_string(),
        "--flows",
        &m.flows.to_string(),
        "--via",
        via.word(),
    ]);
    let mean = rate * (duration_ms + warmup_ms).div_ceil(1_000);
    // The source makes room for ten standard deviations of the number of bursts and some more,
    // for the warm-up and for the rest (`schedule::Plan::most_packets`).
    let burst = u64::from(m.burst.max(1));
    let spread = 10 * burst * ((mean / burst).isqrt() + 10);
    let packets = mean + 2 * spread + 1_000;
    if m.probe == Probe::Forward {
        // Whether the machine has it was asked before; the probe's own limit is for guests.
        args.extend(strings(&[
            "--max-memory",
            &(packets * RECORD_BYTES).to_string(),
        ]));
    }
    args.extend(pin::argument(pins.sender));
    let source = EndPoint::start_with_room(context.lab, node, &args, packets)?;
    source.finish(Duration::from_millis(duration_ms + warmup_ms) + AFTER)
}

/// Matches what was received with what was sent, by sequence number. Times are relative to `start`
/// on the sender's clock, to which `map` takes the receiver's where the two differ.
pub fn join(sent: &Output, received: &Output, start: i64, map: Option<&ClockMap>) -> Measured {
    let measured = |r: &&Record| !r.has(flags::WARM_UP);
    let on_sender = |ns: u64| match map {
        Some(map) => clock::to_sender(map, ns as i64, start),
        None => ns as i64 - start,
    };
    let mut counters = Counters::default();
    let mut index: HashMap<u32, usize> = HashMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for record in sent
        .of(SampleKind::Source)
        .filter(measured)
        .filter(|r| !r.has(flags::NOT_SENT))
    {
        index.insert(record.sequence, samples.len());
        samples.push(Sample {
            seq: samples.len() as u64,
            intended_ns: record.start_ns as i64 - start,
            sent_ns: record.end_ns as i64 - start,
            ..Sample::default()
        });
    }
    // Sequence numbers of the warm-up are known too: what belongs to it is not unmatched.
    let warmup: Vec<u32> = sent
        .of(SampleKind::Source)
        .filter(|r| r.has(flags::WARM_UP))
        .map(|r| r.sequence)
        .collect();
    let last_warmup = warmup.iter().max().copied();
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
        let received_ns = on_sender(record.end_ns);
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
    fn everything_sent_is_accounted_for() {
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
