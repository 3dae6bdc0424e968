//! The floor: the same probe and sizes over the sender's loopback, and the cost of its clock. Latency
//! above the floor belongs to the link and the peer; latency below it is no latency.

use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::Floor;
use latlab_model::spec::{Protocol, Via};
use latlab_wire::samples::{Counters, SampleKind, flags};

use crate::context::{Context, loopback};
use crate::endpoint::{Endpoint, Error, Output, strings};
use crate::nodes::Nodes;
use crate::pin::Pins;
use crate::probes::{self, Load};
use crate::ruler::percentile;

/// Short, because it is repeated beside every measurement.
const DURATION_MS: u64 = 150;
const WARMUP_TRANSACTIONS: u32 = 20;
const WARMUP_MS: u64 = 20;
const MAX_PACKETS: u64 = 1 << 20;
/// Packets per second at most: a rate that the loopback cannot carry would measure its queue.
const MAX_RATE: u64 = 10_000;
/// Clock reads; about a millisecond.
const READS: &str = "20000";
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const CLOCK_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn rr<N: Nodes>(context: &Context<'_, N>) -> Result<Floor, Error> {
    let node = context.sender();
    let loopback = loopback(context.measurement.ip == 6);
    let pins = Pins::of_floor(context);
    let ask = |to: &str| {
        let sender = pins.sender;
        probes::rr_client(context, node, to, DURATION_MS, WARMUP_TRANSACTIONS, sender)?.finish()
    };
    let output = if context.measurement.protocol == Protocol::Icmp {
        ask(&loopback.to_string())?
    } else {
        let bind = SocketAddr::new(loopback, 0).to_string();
        let (server, port) = probes::rr_server(context, node, &bind, pins.receiver)?;
        let output = ask(&SocketAddr::new(loopback, port).to_string())?;
        server.stop(STOP_TIMEOUT)?;
        output
    };
    let latencies = output
        .of(SampleKind::Rr)
        .filter(|r| !r.has(flags::WARM_UP | flags::LOST))
        .map(|r| r.end_ns.saturating_sub(r.start_ns));
    with_clock(context, latencies.collect())
}

pub(crate) fn packets<N: Nodes>(context: &Context<'_, N>) -> Result<Floor, Error> {
    let node = context.sender();
    let loopback = loopback(context.measurement.ip == 6);
    let pins = Pins::of_floor(context);
    let bind = SocketAddr::new(loopback, 0).to_string();
    let (sink, port) = probes::sink(context, node, &bind, MAX_PACKETS, pins.receiver)?;
    let load = Load {
        to: &SocketAddr::new(loopback, port).to_string(),
        // Only a socket reaches a local address.
        via: Via::Socket,
        rate: context.measurement.rate.min(MAX_RATE),
        duration_ms: DURATION_MS,
        warmup_ms: WARMUP_MS,
    };
    let sent = probes::source(context, &load, pins.sender)?.finish()?;
    let received = sink.stop(STOP_TIMEOUT)?;
    let begin = sent.report.as_ref().map_or(0, |r| r.started_ns);
    let latencies = received
        .of(SampleKind::Sink)
        .filter(|r| !r.has(flags::DUPLICATE) && r.start_ns >= begin)
        .map(|r| r.end_ns.saturating_sub(r.start_ns));
    with_clock(context, latencies.collect())
}

fn with_clock<N: Nodes>(context: &Context<'_, N>, mut latencies: Vec<u64>) -> Result<Floor, Error> {
    latencies.sort_unstable();
    let mut floor = Floor {
        median_ns: percentile(&latencies, 0.5),
        p99_ns: percentile(&latencies, 0.99),
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

fn clock<N: Nodes>(context: &Context<'_, N>) -> Result<Output, Error> {
    let args = strings(&["clock", "--reads", READS]);
    Endpoint::start(context.lab, context.sender(), &args)?.finish(CLOCK_TIMEOUT)
}
