//! Packets through a device under test, timed outside of it, with what the kernel did meanwhile.
//!
//! Taps stand where packets leave the sender's interface and where they come in at the next node's, so
//! that the time between two is the device's and the link's and nobody else's: not the generator's
//! lateness, not the receiver's wake-up. The flight recorder runs on the processors of the lab for the
//! same window. Both write into memory; nothing is read before the window is over. Memory is bounded by
//! rate and time: 32 bytes a packet and tap, and the recorder's rings, which keep the newest events.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use latlab_host::sys::netns::NetNs;
use latlab_model::results::{Counters, Hop, Trace, WatchedCpu};
use latlab_model::spec::NodeKind;
use latlab_samples::{Passage, Sample};
use latlab_trace::recorder::{self, Recorder, windows};
use latlab_trace::taps::matching::{self, Fates};
use latlab_trace::taps::{Point, Seen, Side, Tap};
use latlab_wire::samples::{Record, SampleKind, flags};
use latlab_wire::trace::{Event, WINDOW_MARGIN_NS, WORST_PACKETS};

use crate::devices::Devices;
use crate::endpoint::{EndPoint, Output};
use crate::packets;
use crate::pin::Pins;
use crate::rr::strings;
use crate::trial::{Context, Error, Measured, node_record};
use crate::{checks, floor};

/// After its window an end point only has to hand over its records.
const AFTER: Duration = Duration::from_secs(60);
/// How long a packet may still be under way after the last was sent.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// Events that a packet causes on one processor, and those of an idle one in a second: generous.
const EVENTS_PER_PACKET: f64 = 16.0;
const EVENTS_PER_SECOND: f64 = 50_000.0;
/// Events of one processor at most: 192 MiB of them.
const MOST_EVENTS: u32 = 1 << 22;
/// Processors that are watched at most.
const MOST_CPUS: usize = 64;

/// What is written beside the samples.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What must be known to read the tables.
    pub trace: Trace,
    /// The packets' ways.
    pub passages: Vec<Passage>,
    /// Kernel events around the slowest.
    pub events: Vec<Event>,
}

/// A tap in a node's namespace.
struct Placed {
    node: String,
    netns: NetNs,
    point: Point,
    tap: Tap,
}

/// Measures once.
///
/// # Errors
/// When a tap cannot be had or an end point fails. A flight recorder that cannot run is no error: the
/// packets then stay unexplained, and the trial says so.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    let m = context.measurement;
    let floor = floor::packets(context)?;
    let pins = Pins::of(context);
    // The two ends are no part of what is measured: they share, and the device has the other.
    let ends = Pins {
        sender: pins.sender,
        receiver: pins.sender,
    };
    let seconds = (m.duration.0 + m.warmup.0) as f64 / 1e9;
    let room = (m.rate as f64 * seconds * 1.2) as u64 + 1024;
    let devices = Devices::start(context, &way(context), pins)?;
    let (sink, port) = discard(context)?;
    let to = SocketAddr::new(context.reach.address, port).to_string();
    let taps = taps(context, room)?;
    let mut trace = Trace::default();
    let recorder = start_recorder(context, seconds, &mut trace);
    let duration_ms = m.duration.0.div_ceil(1_000_000);
    let warmup_ms = m.warmup.0 / 1_000_000;
    let sent = packets::send(
        context,
        context.sender(),
        (&to, m.via),
        duration_ms,
        warmup_ms,
        ends,
    );
    std::thread::sleep(STRAGGLERS);
    let recorded = recorder.map(Recorder::finish);
    let seen = detach(taps)?;
    let sent = sent?;
    sink.stop(AFTER)?;
    let mut outputs = vec![("sender", context.sender().to_string(), sent)];
    for (node, output) in devices.stop(AFTER)? {
        outputs.push(("device", node, output));
    }
    let mut measured = conclude(context, &outputs[0].2, &seen, recorded, trace);
    measured.floor = Some(floor);
    for (role, node, output) in &outputs {
        if let Some(report) = &output.report {
            measured.nodes.push(node_record(node, role, report));
            // A device that polls is preempted and that is what is measured; the sender must keep time.
            if *role == "sender" {
                measured.checks.extend(checks::of_report(role, report));
            }
        }
    }
    Ok(measured)
}

/// An address for the packets to go to. Nobody reads them: the last tap has seen them, and a reader would
/// take the processor from the sender at each of them.
fn discard(context: &Context<'_>) -> Result<(EndPoint, u16), Error> {
    let args = strings(&["discard", "--bind", &context.any(0)]);
    let mut end = EndPoint::start(context.lab, context.receiver(), &args)?;
    let ready = end.ready()?;
    Ok((end, ready.local.map_or(0, |address| address.port())))
}

/// The nodes from sender to receiver.
fn way<'a>(context: &'a Context<'_>) -> Vec<&'a str> {
    let mut way = vec![context.sender()];
    let through = &context.measurement.through;
    way.extend(through.iter().map(|node| node.value.as_str()));
    way.push(context.receiver());
    way
}

/// Taps the sender's interface, and where each later node takes packets in. Between the sender and the
/// first node there is a link only, so that its time goes to the first device.
fn taps(context: &Context<'_>, room: u64) -> Result<Vec<Placed>, Error> {
    let way = way(context);
    let mut all = Vec::new();
    let joined = |from: &str, to: &str| {
        let ends = context.lab.plan().joined(from, to);
        ends.map(|(a, b)| (a.to_string(), b.to_string()))
            .ok_or_else(|| Error::Unreachable {
                from: from.into(),
                to: to.into(),
            })
    };
    let (first, _) = joined(way[0], way[1])?;
    all.push(place(context, way[0], first, Side::Egress, room)?);
    let from = usize::from(way.len() > 2);
    for pair in way.windows(2).skip(from) {
        let (_, interface) = joined(pair[0], pair[1])?;
        all.push(place(context, pair[1], interface, Side::Ingress, room)?);
    }
    Ok(all)
}

fn place(
    context: &Context<'_>,
    node: &str,
    interface: String,
    side: Side,
    room: u64,
) -> Result<Placed, Error> {
    let lab = |error: latlab_host::lab::Error| Error::Lab(error.to_string());
    let netns = context.lab.netns(node).map_err(lab)?;
    let point = Point { interface, side };
    let failed = |source| Error::Tap {
        node: node.into(),
        source,
    };
    let attached = netns.run(|| Tap::attach(&point, room));
    let tap = attached
        .map_err(|e| Error::Lab(e.to_string()))?
        .map_err(failed)?;
    Ok(Placed {
        node: node.into(),
        netns,
        point,
        tap,
    })
}

/// Takes all taps away; each with the name of its place.
fn detach(taps: Vec<Placed>) -> Result<Vec<(String, Seen)>, Error> {
    let one = |placed: Placed| {
        let Placed {
            node,
            netns,
            point,
            tap,
        } = placed;
        let detached = netns.run(|| tap.detach());
        let seen = detached.map_err(|e| Error::Lab(e.to_string()))?;
        let name = format!("{node} {point}");
        Ok((name, seen.map_err(|source| Error::Tap { node, source })?))
    };
    taps.into_iter().map(one).collect()
}

fn start_recorder(context: &Context<'_>, seconds: f64, trace: &mut Trace) -> Option<Recorder> {
    if !context.measurement.record {
        let off = "the flight recorder was off: no packet can be explained";
        trace.unknown.push(off.into());
        return None;
    }
    let rate = context.measurement.rate as f64;
    let events = seconds * (rate * EVENTS_PER_PACKET + EVENTS_PER_SECOND);
    let settings = recorder::Settings {
        cpus: cpus(context),
        events_per_cpu: (events as u32).clamp(1 << 16, MOST_EVENTS),
    };
    match Recorder::load(&settings) {
        Ok(recorder) => {
            recorder.start();
            Some(recorder)
        }
        Err(error) => {
            trace
                .unknown
                .push(format!("{error}: no packet can be explained"));
            None
        }
    }
}

/// The processors that the lab can use: this process's own, and those its nodes are placed on.
fn cpus(context: &Context<'_>) -> Vec<u16> {
    let mut all: BTreeSet<u16> = BTreeSet::new();
    if let Ok(own) = rustix::thread::sched_getaffinity(None) {
        all.extend((0..1024u16).filter(|&cpu| own.is_set(usize::from(cpu))));
    }
    for node in &context.lab.plan().nodes {
        if let Some(set) = &node.cpuset {
            all.extend(set.iter().filter_map(|cpu| u16::try_from(cpu).ok()));
        }
    }
    all.into_iter().take(MOST_CPUS).collect()
}

fn conclude(
    context: &Context<'_>,
    sent: &Output,
    seen: &[(String, Seen)],
    recorded: Option<recorder::Recorded>,
    mut trace: Trace,
) -> Measured {
    let mut passages = Vec::new();
    let through = &context.measurement.through;
    let link = context.reach.link;
    for (hop, pair) in seen.windows(2).enumerate() {
        let (ways, fates) = matching::matched(hop as u16, &pair[0].1, &pair[1].1);
        let device = through.get(hop).map(|node| node.value.clone());
        trace.hops.push(Hop {
            device: device.unwrap_or_else(|| context.lab.plan().links[link].name.clone()),
            before: pair[0].0.clone(),
            behind: pair[1].0.clone(),
            counters: counters(&fates),
            impossible: fates.impossible,
            no_room: fates.no_room,
        });
        passages.push(ways);
    }
    let (samples, counters) = samples(sent, &passages);
    let passages = without_warmup(sent, passages);
    let mut events = Vec::new();
    if let Some(recorded) = recorded {
        (events, trace) = chosen(recorded, &passages, trace);
    }
    say_what_is_unknown(context, &mut trace);
    Measured {
        samples,
        counters,
        trace: Some(Recorded {
            trace,
            passages,
            events,
        }),
        ..Measured::default()
    }
}

fn counters(fates: &Fates) -> Counters {
    Counters {
        sent: fates.entered,
        received: fates.left,
        lost: fates.lost,
        duplicated: fates.duplicated,
        reordered: fates.reordered,
        unmatched: fates.unmatched,
        corrupted: fates.corrupted,
    }
}

/// The records of the measured window, by sequence number.
fn window(sent: &Output) -> HashMap<u32, &Record> {
    sent.of(SampleKind::Source)
        .filter(|record| !record.has(flags::WARM_UP | flags::NOT_SENT))
        .map(|record| (record.sequence, record))
        .collect()
}

/// One sample a packet: from the first tap to the last.
fn samples(sent: &Output, hops: &[Vec<Passage>]) -> (Vec<Sample>, Counters) {
    let start = sent.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let window = window(sent);
    let mut total = Counters::default();
    let last: HashMap<u32, u64> = hops.last().map_or(HashMap::new(), |hop| {
        let out = |p: &Passage| Some((p.sequence, p.out_ns?));
        hop.iter().filter_map(out).collect()
    });
    let mut arrivals: Vec<(u64, usize)> = Vec::new();
    let mut samples = Vec::new();
    for passage in hops.first().into_iter().flatten() {
        let Some(record) = window.get(&passage.sequence) else {
            continue;
        };
        let out = last.get(&passage.sequence).copied();
        if let Some(out) = out {
            arrivals.push((out, samples.len()));
        }
        samples.push(Sample {
            seq: samples.len() as u64,
            intended_ns: record.start_ns as i64 - start,
            sent_ns: passage.in_ns as i64 - start,
            received_ns: out.map(|ns| ns as i64 - start),
            latency_ns: out.map(|ns| ns.saturating_sub(passage.in_ns) as i64),
            arrival: None,
        });
    }
    arrivals.sort_unstable();
    let mut latest = 0;
    for (order, &(_, at)) in arrivals.iter().enumerate() {
        samples[at].arrival = Some(order as i64);
        total.reordered += u64::from(at < latest);
        latest = latest.max(at);
    }
    total.sent = samples.len() as u64;
    total.received = arrivals.len() as u64;
    total.lost = total.sent - total.received;
    (samples, total)
}

fn without_warmup(sent: &Output, hops: Vec<Vec<Passage>>) -> Vec<Passage> {
    let window = window(sent);
    let all = hops.into_iter().flatten();
    all.filter(|passage| window.contains_key(&passage.sequence))
        .collect()
}

/// The events around the slowest packets of every hop.
fn chosen(
    recorded: recorder::Recorded,
    passages: &[Passage],
    mut trace: Trace,
) -> (Vec<Event>, Trace) {
    let hops = trace.hops.len() as u16;
    let mut spans = Vec::new();
    let mut tasks = BTreeSet::new();
    for hop in 0..hops {
        let of_hop = passages
            .iter()
            .filter(|p| p.hop == hop && p.out_ns.is_some());
        let mut slowest: Vec<&Passage> = of_hop.collect();
        slowest.sort_by_key(|p| std::cmp::Reverse(p.latency_ns()));
        slowest.truncate(WORST_PACKETS);
        tasks.extend(slowest.iter().map(|p| p.out_task).filter(|&task| task != 0));
        spans.extend(slowest.iter().map(|p| {
            let out = p.out_ns.unwrap_or(p.in_ns);
            (
                p.in_ns.saturating_sub(WINDOW_MARGIN_NS),
                out + WINDOW_MARGIN_NS,
            )
        }));
    }
    let events = windows::keep(&recorded.events, &spans, &tasks);
    let gaps = recorded.gaps;
    trace.steal_known = gaps.steal_known;
    trace.watched = gaps
        .processors
        .iter()
        .map(|one| WatchedCpu {
            cpu: one.cpu,
            complete_from_ns: one.complete_from_ns,
            overwritten: one.overwritten,
        })
        .collect();
    for (point, reason) in gaps.missing {
        let text =
            format!("{point} could not be recorded ({reason}): time spent there is not named");
        trace.unknown.push(text);
    }
    if gaps.missed > 0 {
        let text = format!(
            "{} kernel events came while another was being recorded",
            gaps.missed
        );
        trace.unknown.push(text);
    }
    (events, trace)
}

fn say_what_is_unknown(context: &Context<'_>, trace: &mut Trace) {
    for hop in &trace.hops {
        if hop.no_room > 0 {
            let text = format!(
                "{} packets found no room in the taps of {}",
                hop.no_room, hop.device
            );
            trace.unknown.push(text);
        }
        if hop.counters.sent == 0 {
            let text = format!("no packet of this measurement passed {}", hop.before);
            trace.unknown.push(text);
        }
    }
    for cpu in trace.watched.iter().filter(|cpu| cpu.overwritten > 0) {
        let text = format!(
            "the ring of processor {} was full: {} older events are lost, and packets before that time \
             are not explained",
            cpu.cpu, cpu.overwritten
        );
        trace.unknown.push(text);
    }
    let way = way(context);
    let guests = way.iter().filter_map(|name| context.lab.plan().node(name));
    for node in guests.filter(|node| node.kind == NodeKind::Vm) {
        let text = format!(
            "what the kernel inside of `{}` did is not recorded",
            node.name
        );
        trace.unknown.push(text);
    }
}
