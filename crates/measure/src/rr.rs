//! Request/response with one transaction in flight, or at a rate; every transaction is recorded.
//!
//! Latency is the sender's round trip, one clock: from the request sent, at a rate from when it was due, to the response
//! received. Message sizes
//! default to Felter 2014's (100 B and 200 B).
//!
//! A UDP client does not connect its socket: sockperf's does not either, and a server, which answers many
//! clients, cannot. Each send therefore looks its route up. A connected socket is 5 % faster over a veth, so
//! results of the two must not be mixed.

use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::{Counters, Floor};
use latlab_model::spec::Protocol;
use latlab_samples::Sample;
use latlab_wire::samples::{self, Report, SampleKind, flags};

use crate::context::Context;
use crate::endpoint::{Endpoint, Output};
use crate::error::Error;
use crate::measured::Measured;
use crate::nodes::Nodes;
use crate::pin::Pins;
use crate::probes::{self, HANDOVER_TIMEOUT, Sender};
use crate::{actions, checks, floor, memory, steal};

/// Transactions before the window: caches, neighbour tables and connection tracking settle.
const WARMUP: u32 = 200;
/// Time that links hold packets of the warm-up: over long ones it has fewer transactions.
const MAX_WARMUP: Duration = Duration::from_secs(30);

/// Measures once, on one machine.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    require_memory(context)?;
    let floor = floor::rr(context)?;
    actions::prepare(context)?;
    let pins = Pins::of(context);
    let server = Server::start(context, pins)?;
    let watch = steal::Watch::begin(context, pins);
    let client = client(context, pins, &server)?;
    // Its warm-up is over within milliseconds.
    let (output, acted) = actions::beside(context, client, Duration::ZERO)?;
    let mut measured = conclude(context, floor, &output, server.stop()?.as_ref());
    measured.actions = acted.records;
    if let Some(report) = &output.report {
        measured.stolen = watch.end(report.started_ns);
    }
    Ok(measured)
}

/// Measures once between nodes on several machines. The time that hypervisors take meanwhile stays unknown.
pub fn measure_between_hosts<N: Nodes>(context: &Context<'_, N>) -> Result<Measured, Error> {
    require_memory(context)?;
    let floor = floor::rr(context)?;
    let pins = Pins::of(context);
    let server = Server::start(context, pins)?;
    let output = client(context, pins, &server)?.finish()?;
    let served = server.stop()?;
    Ok(conclude(context, floor, &output, served.as_ref()))
}

/// Room for the records of requests at a rate; one in flight takes what there is.
fn require_memory<N: Nodes>(context: &Context<'_, N>) -> Result<(), Error> {
    let m = context.measurement;
    let requests = m
        .pace
        .map(|rate| probes::requests(rate, window_ms(context)));
    memory::require_records(requests.unwrap_or(0), 1)
}

/// The program that answers, and where it is reached; the receiver's kernel answers ICMP.
struct Server {
    endpoint: Option<Endpoint>,
    address: String,
}

impl Server {
    fn start<N: Nodes>(context: &Context<'_, N>, pins: Pins) -> Result<Server, Error> {
        let to = context.reach.address;
        if context.measurement.protocol == Protocol::Icmp {
            return Ok(Server {
                endpoint: None,
                address: to.to_string(),
            });
        }
        let bind = context.any();
        let (endpoint, port) =
            probes::rr_server(context, context.receiver(), &bind, pins.receiver)?;
        Ok(Server {
            endpoint: Some(endpoint),
            address: SocketAddr::new(to, port).to_string(),
        })
    }

    fn stop(self) -> Result<Option<Output>, Error> {
        let stopped = self.endpoint.map(|server| server.stop(HANDOVER_TIMEOUT));
        Ok(stopped.transpose()?)
    }
}

fn window_ms<N: Nodes>(context: &Context<'_, N>) -> u64 {
    context.measurement.duration.0.div_ceil(1_000_000)
}

fn client<N: Nodes>(
    context: &Context<'_, N>,
    pins: Pins,
    server: &Server,
) -> Result<Sender, Error> {
    let duration_ms = window_ms(context);
    let (sender, to) = (context.sender(), &server.address);
    let warmup = warmup(context.transit().unqueued);
    let client = probes::rr_client(context, sender, to, duration_ms, warmup, pins.sender);
    Ok(client?)
}

fn warmup(round_trip: Duration) -> u32 {
    let transactions = MAX_WARMUP.as_nanos() / round_trip.as_nanos().max(1);
    u32::try_from(transactions).map_or(WARMUP, |most| WARMUP.min(most.max(1)))
}

fn conclude<N: Nodes>(
    context: &Context<'_, N>,
    floor: Floor,
    output: &Output,
    served: Option<&Output>,
) -> Measured {
    let mut measured = Measured {
        floor: Some(floor),
        ..Measured::default()
    };
    if let Some(report) = &output.report {
        measured.samples = to_samples(output, report);
        measured.counters = counters(report);
        measured
            .checks
            .extend(checks::of_window(context.measurement.duration, report));
    }
    measured.add_endpoint("sender", context.sender(), output);
    if let Some(served) = served {
        measured.add_endpoint("receiver", context.receiver(), served);
    }
    measured
}

/// Records as samples: times relative to the begin of the measured window.
fn to_samples(output: &Output, report: &Report) -> Vec<Sample> {
    let start = report.started_ns as i64;
    let measured = output.of(SampleKind::Rr).filter(|r| !r.has(flags::WARM_UP));
    let mut samples: Vec<Sample> = measured
        .enumerate()
        .map(|(seq, r)| {
            let sent_ns = r.start_ns as i64 - start;
            let received_ns = (!r.has(flags::LOST)).then_some(r.end_ns as i64 - start);
            Sample {
                seq: seq as u64,
                // A request is due when it is sent, or timed from when it was due.
                intended_ns: sent_ns,
                sent_ns,
                received_ns,
                latency_ns: received_ns.map(|r| r - sent_ns),
                arrival: None,
            }
        })
        .collect();
    let mut arrived: Vec<&mut Sample> = samples.iter_mut().collect();
    arrived.retain(|sample| sample.received_ns.is_some());
    arrived.sort_by_key(|sample| sample.received_ns);
    for (order, sample) in arrived.into_iter().enumerate() {
        sample.arrival = Some(order as i64);
    }
    samples
}

fn counters(report: &Report) -> Counters {
    match &report.counters {
        samples::Counters::RrClient(c) => Counters {
            sent: c.transactions,
            received: c.answered,
            lost: c.lost,
            // A response after its timeout is neither a duplicate nor lost on the wire: unmatched.
            duplicated: c.duplicates,
            unmatched: c.unmatched + c.late,
            ..Counters::default()
        },
        _ => Counters::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_over_a_long_link_has_fewer_transactions() {
        let transactions = |millis| warmup(Duration::from_millis(millis));
        assert_eq!([0, 100, 1200].map(transactions), [200, 200, 25]);
        assert_eq!(transactions(120_000), 1);
    }
}
