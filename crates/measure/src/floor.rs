//! The floor: the same probe, sizes and node, over the sender's own loopback, and the cost of its
//! clock. What a result shows beyond this is the link's and the peer's doing; what it shows below
//! is nothing.

use latlab_model::results::Floor;
use latlab_model::spec::{Protocol, Via};
use latlab_wire::samples::{Counters, SampleKind, flags};

use crate::endpoint::{EndPoint, Error, Output};
use crate::trial::Context;
use crate::{packets, pin::Pins, rr};

/// Short, because it is repeated beside every measurement.
const DURATION_MS: u64 = 150;
/// Packets a second at most: at a rate that the loopback does not carry either, its queue would be measured.
const CALM: u64 = 10_000;
/// Clock reads; about a millisecond.
const READS: &str = "20000";

/// Floor of request/response.
pub(crate) fn rr(context: &Context<'_>) -> Result<Floor, Error> {
    let node = context.sender();
    let loopback = loopback(context);
    let pins = Pins::of_floor(context);
    let output = match context.measurement.protocol {
        Protocol::Icmp => rr::ask(context, node, loopback, DURATION_MS, 20, pins)?,
        _ => {
            let (server, port) = rr::serve(context, node, &bracket(loopback, 0), pins)?;
            let output = rr::ask(
                context,
                node,
                &bracket(loopback, port),
                DURATION_MS,
                20,
                pins,
            )?;
            server.stop(std::time::Duration::from_secs(10))?;
            output
        }
    };
    let latencies = output
        .of(SampleKind::Rr)
        .filter(|r| !r.has(flags::WARM_UP | flags::LOST))
        .map(|r| r.end_ns.saturating_sub(r.start_ns));
    with_clock(context, latencies.collect())
}

/// Floor of open-loop packets.
pub(crate) fn packets(context: &Context<'_>) -> Result<Floor, Error> {
    let node = context.sender();
    let loopback = loopback(context);
    let pins = Pins::of_floor(context);
    let (sink, port) = packets::sink(context, node, &bracket(loopback, 0), 1 << 20, pins)?;
    let sent = packets::send(
        context,
        node,
        // Nothing but a socket reaches a local address.
        (&bracket(loopback, port), Via::Socket),
        context.measurement.rate.min(CALM),
        DURATION_MS,
        20,
        pins,
    )?;
    let received = sink.stop(std::time::Duration::from_secs(10))?;
    let begin = sent.report.as_ref().map_or(0, |r| r.started_ns);
    let latencies = received
        .of(SampleKind::Sink)
        .filter(|r| !r.has(flags::DUPLICATE) && r.start_ns >= begin)
        .map(|r| r.end_ns.saturating_sub(r.start_ns));
    with_clock(context, latencies.collect())
}

fn with_clock(context: &Context<'_>, mut latencies: Vec<u64>) -> Result<Floor, Error> {
    latencies.sort_unstable();
    let at = |p: f64| {
        let index = (latencies.len() as f64 * p) as usize;
        latencies
            .get(index.min(latencies.len().saturating_sub(1)))
            .map_or(0.0, |v| *v as f64)
    };
    let mut floor = Floor {
        median_ns: at(0.5),
        p99_ns: at(0.99),
        samples: latencies.len() as u64,
        ..Floor::default()
    };
    let clock = clock(context)?;
    if let Some(Counters::Clock(c)) = clock.report.map(|r| r.counters) {
        floor.clock_read_ns = c.cost.p50_ns.map_or(c.mean_ns, |v| v as f64);
        floor.clock_resolution_ns = c.smallest_step_ns.unwrap_or(c.claimed_resolution_ns) as f64;
    }
    Ok(floor)
}

fn clock(context: &Context<'_>) -> Result<Output, Error> {
    let args = rr::strings(&["clock", "--reads", READS]);
    EndPoint::start(context.lab, context.sender(), &args)?
        .finish(std::time::Duration::from_secs(30))
}

fn loopback(context: &Context<'_>) -> &'static str {
    match context.measurement.ip {
        6 => "::1",
        _ => "127.0.0.1",
    }
}

fn bracket(address: &str, port: u16) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}
