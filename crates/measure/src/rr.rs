//! Request/response with one transaction in flight; every transaction is recorded.
//!
//! Latency is the sender's round trip: request sent to response received, one clock. Message sizes
//! default to Felter 2014's (100 B and 200 B).
//!
//! A UDP client does not connect its socket, as sockperf's does not and a server's, which answers
//! many, cannot: each send looks its route up. A connected one is 5 % faster over a veth, so results
//! of the two must not be mixed.

use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::Counters;
use latlab_model::spec::Protocol;
use latlab_samples::Sample;
use latlab_wire::samples::{self, Report, SampleKind, flags};

use crate::endpoint::{EndPoint, Error, Output};
use crate::pin::{self, Pins};
use crate::trial::{self, Context, Measured, node_record};
use crate::{checks, floor, steal};

/// After its window a client only has to hand over its records.
const AFTER: Duration = Duration::from_secs(60);
/// Transactions before the window: caches, neighbour tables and connection tracking settle.
const WARMUP: u32 = 200;

/// Measures once.
///
/// # Errors
/// When an end point fails.
pub fn measure(context: &Context<'_>) -> Result<Measured, trial::Error> {
    let m = context.measurement;
    let floor = floor::rr(context)?;
    let pins = Pins::of(context);
    let server = match m.protocol {
        Protocol::Icmp => None,
        _ => Some(serve(context, context.receiver(), &context.any(0), pins)?),
    };
    let to = match &server {
        Some((_, port)) => SocketAddr::new(context.reach.address, *port).to_string(),
        None => context.reach.address.to_string(),
    };
    let watch = steal::Watch::begin(context, pins);
    let output = ask(
        context,
        context.sender(),
        &to,
        m.duration.0.div_ceil(1_000_000),
        WARMUP,
        pins,
    )?;
    let served = server.map(|(s, _)| s.stop(AFTER)).transpose()?;
    let mut measured = Measured {
        floor: Some(floor),
        ..Measured::default()
    };
    if let Some(report) = &output.report {
        measured.stolen = watch.end(report.started_ns);
        measured.samples = to_samples(&output, report);
        measured.counters = counters(report);
        measured
            .nodes
            .push(node_record(context.sender(), "sender", report));
        measured.checks.extend(checks::of_report("sender", report));
    }
    if let Some(report) = served.as_ref().and_then(|o| o.report.as_ref()) {
        measured
            .nodes
            .push(node_record(context.receiver(), "receiver", report));
        measured
            .checks
            .extend(checks::of_report("receiver", report));
    }
    Ok(measured)
}

/// Starts a server in `node` and returns it with its port.
pub(crate) fn serve(
    context: &Context<'_>,
    node: &str,
    bind: &str,
    pins: Pins,
) -> Result<(EndPoint, u16), Error> {
    let m = context.measurement;
    let mut args = strings(&[
        "rr-server",
        "--proto",
        m.protocol.word(),
        "--bind",
        bind,
        "--response-bytes",
        &m.response.to_string(),
    ]);
    args.extend(pin::argument(pins.receiver));
    let mut server = EndPoint::start(context.lab, node, &args)?;
    let ready = server.ready()?;
    let port = ready.local.map_or(0, |a| a.port());
    Ok((server, port))
}

/// Runs a client in `node` against `to` for a time.
pub(crate) fn ask(
    context: &Context<'_>,
    node: &str,
    to: &str,
    duration_ms: u64,
    warmup: u32,
    pins: Pins,
) -> Result<Output, Error> {
    let m = context.measurement;
    let mut args = strings(&[
        "rr-client",
        "--proto",
        m.protocol.word(),
        "--to",
        to,
        "--duration-ms",
        &duration_ms.to_string(),
        "--request-bytes",
        &m.request.to_string(),
        "--response-bytes",
        &m.response.to_string(),
        "--warmup",
        &warmup.to_string(),
    ]);
    if m.protocol == Protocol::Udp {
        args.extend(strings(&["--connect", "no"]));
    }
    args.extend(pin::argument(pins.sender));
    // No exchange takes less than a microsecond.
    let room = duration_ms * 1_000 + u64::from(warmup);
    let client = EndPoint::start_with_room(context.lab, node, &args, room)?;
    client.finish(Duration::from_millis(duration_ms) + AFTER)
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Records as samples: times relative to the begin of the measured window.
fn to_samples(output: &Output, report: &Report) -> Vec<Sample> {
    let start = report.started_ns as i64;
    let measured = output.of(SampleKind::Rr).filter(|r| !r.has(flags::WARM_UP));
    let mut arrival = 0;
    measured
        .enumerate()
        .map(|(seq, r)| {
            let sent_ns = r.start_ns as i64 - start;
            let received_ns = (!r.has(flags::LOST)).then_some(r.end_ns as i64 - start);
            let order = received_ns.map(|_| arrival);
            arrival += i64::from(received_ns.is_some());
            Sample {
                seq: seq as u64,
                // A closed loop has no schedule: it is due when it is sent.
                intended_ns: sent_ns,
                sent_ns,
                received_ns,
                latency_ns: received_ns.map(|r| r - sent_ns),
                arrival: order,
            }
        })
        .collect()
}

fn counters(report: &Report) -> Counters {
    match &report.counters {
        samples::Counters::RrClient(c) => Counters {
            sent: c.transactions,
            received: c.answered,
            lost: c.lost,
            // An answer that came after it was given up is no second answer, but it is not lost
            // on the wire either; it is counted as unmatched.
            duplicated: c.duplicates,
            unmatched: c.unmatched + c.late,
            ..Counters::default()
        },
        _ => Counters::default(),
    }
}
