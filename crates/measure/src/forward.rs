//! Packets through a device under test, timed outside of it, with what the kernel did meanwhile.
//!
//! Taps stand where packets leave the sender's interface and where they come in at the next node's, so
//! that the time between two is the device's and the link's and nobody else's: not the generator's
//! lateness, not the receiver's wake-up. The flight recorder runs on the processors of the lab for the
//! same window; what it cannot see, because it is underneath the kernel, is looked for before and after.
//! Both write into memory; nothing is read before the window is over.
//!
//! Memory is known beforehand and refused if the machine has not got it: what a tap writes of each packet, and
//! the recorder's rings. Where a run may be longer than those, somebody takes from them what is around the
//! slowest packets so far ([`Reader`]). After the window nothing is copied: packets are matched in place
//! ([`Timed`]), written a row group at a time, and the slowest kept in a heap.

mod nothing;
mod reader;
mod timed;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use latlab_host::sys::netns::NetNs;
use latlab_model::results::{Counters, Hop, Trace, WatchedCpu};
use latlab_model::spec::NodeKind;
use latlab_model::units::CpuList;
use latlab_trace::recorder::{self, Follower, Recorder, Wanted};
use latlab_trace::taps::matching::Fates;
use latlab_trace::taps::{Point, Seen, Side, Tap};
use latlab_wire::trace::{EVENT_BYTES, Event, TAP_RECORD_BYTES};

pub use reader::{Reader, Seat};
pub use timed::Timed;

use crate::devices::Devices;
use crate::endpoint::EndPoint;
use crate::packets;
use crate::pin::Pins;
use crate::rr::strings;
use crate::trial::{Context, Error, Measured, node_record};
use crate::{checks, floor, hwlat, ruler};

/// After its window an end point only has to hand over its records.
const AFTER: Duration = Duration::from_secs(60);
/// How long a packet may still be under way after the last was sent.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// Events that a packet causes on one processor, and those of an idle one in a second: generous.
const EVENTS_PER_PACKET: f64 = 16.0;
const EVENTS_PER_SECOND: f64 = 50_000.0;
/// Events of one processor at most: 1.5 GiB of them; and at most this part of the memory that is there.
const MOST_EVENTS: u64 = 1 << 25;
const RINGS_PART: u64 = 4;
/// What a packet takes in the sender's record of its schedule.
const SCHEDULE_BYTES: u64 = 32;
/// More frames of others than this part of ours are said: a few resolve addresses.
const FOREIGN_PART: u64 = 100;
/// The first packet may have left so late: packets within the rest of the warm-up are not counted.
const FIRST_IS_LATE_NS: u64 = 10_000_000;
/// Processors that are watched at most.
const MOST_CPUS: usize = 64;

/// What is written beside the samples.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What must be known to read the tables.
    pub trace: Trace,
    /// The packets.
    pub timed: Timed,
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
    let pins = match m.through.first() {
        Some(device) => Pins::of_device(context, &device.value),
        None => Pins::of(context),
    };
    // The two ends are no part of what is measured: they share, and the device has the other.
    let ends = Pins {
        sender: pins.sender,
        receiver: pins.sender,
    };
    let seconds = (m.duration.0 + m.warmup.0) as f64 / 1e9;
    let room = (m.rate as f64 * seconds * 1.2) as u64 + 1024;
    enough_memory(&way(context), room)?;
    let mut trace = Trace::default();
    let recorder = load_recorder(context, seconds, &mut trace);
    let mut looks = Vec::new();
    if let Some((recorder, _)) = &recorder {
        looks.extend(hwlat::look(recorder, &cpus(context)));
        recorder.forget();
    }
    let devices = Devices::start(context, &way(context), pins)?;
    let (sink, port) = discard(context)?;
    let to = SocketAddr::new(context.reach.address, port).to_string();
    lay_ruler(pins.sender, &mut trace);
    let taps = taps(context, room)?;
    let reader = recorder.as_ref().and_then(|(recorder, is_long)| {
        let follow = is_long.then(|| follow(context, recorder, &taps));
        start_reader(context, pins, follow?, &mut trace)
    });
    let recorder = recorder.map(|(recorder, _)| recorder);
    if let Some(recorder) = &recorder {
        recorder.start();
    }
    let duration_ms = m.duration.0.div_ceil(1_000_000);
    let warmup_ms = m.warmup.0 / 1_000_000;
    let sent = packets::send(
        context,
        context.sender(),
        (&to, m.via),
        m.rate,
        duration_ms,
        warmup_ms,
        ends,
    );
    std::thread::sleep(STRAGGLERS);
    if let Some(recorder) = &recorder {
        recorder.stop();
    }
    let follower = reader.and_then(Reader::stop);
    let seen = detach(taps)?;
    let sent = sent?;
    sink.stop(AFTER)?;
    let mut outputs = vec![("sender", context.sender().to_string(), sent)];
    for (node, output) in devices.stop(AFTER)? {
        outputs.push(("device", node, output));
    }
    if let Some(recorder) = &recorder {
        looks.extend(hwlat::look(recorder, &cpus(context)));
        trace.hwlat = hwlat::found(&looks);
    }
    let timed = Timed::new(&mut outputs[0].2, seen);
    nothing::refuse(context, &timed)?;
    let recorder = recorder.map(|recorder| (recorder, follower));
    let mut measured = conclude(context, timed, recorder, trace);
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

/// Refuses what would not fit into half of the memory that is there: each tap's records, which are
/// taken at once, and what the sender keeps of its schedule, twice while it is handed over.
fn enough_memory(way: &[&str], room: u64) -> Result<(), Error> {
    let taps = way.len().max(3) as u64 - 1;
    let needed = room * (taps * TAP_RECORD_BYTES as u64 + 2 * SCHEDULE_BYTES);
    let there = available_bytes();
    match needed > there / 2 {
        true => Err(Error::Memory {
            packets: room,
            needed,
            there,
        }),
        false => Ok(()),
    }
}

/// Memory that could be had now, by the kernel's own estimate.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    // A kernel that does not say is not second-guessed.
    kilobytes.map_or(u64::MAX, |k| k * 1024)
}

/// Measures the taps' own error; without it, it is not known.
fn lay_ruler(cpu: Option<u32>, trace: &mut Trace) {
    match ruler::measure(cpu) {
        Ok(ruler) => trace.ruler = Some(ruler),
        Err(error) => trace.unknown.push(format!(
            "the taps' own error could not be measured: {error}"
        )),
    }
}

/// Loads it, and says whether its rings may be too small for the run.
fn load_recorder(
    context: &Context<'_>,
    seconds: f64,
    trace: &mut Trace,
) -> Option<(Recorder, bool)> {
    if !context.measurement.record {
        let off = "the flight recorder was off: no packet can be explained";
        trace.unknown.push(off.into());
        return None;
    }
    let rate = context.measurement.rate as f64;
    let events = seconds * (rate * EVENTS_PER_PACKET + EVENTS_PER_SECOND);
    let cpus = cpus(context);
    let there = available_bytes() / RINGS_PART / cpus.len().max(1) as u64 / EVENT_BYTES as u64;
    // A ring's size is a power of two; where it is made it is rounded up.
    let most = (there / 2 + 1)
        .next_power_of_two()
        .clamp(1 << 16, MOST_EVENTS);
    let settings = recorder::Settings {
        cpus,
        events_per_cpu: (events as u64).clamp(1 << 16, most) as u32,
    };
    match Recorder::load(&settings) {
        Ok(recorder) => Some((recorder, events as u64 > most)),
        Err(error) => {
            trace
                .unknown
                .push(format!("{error}: no packet can be explained"));
            None
        }
    }
}

fn follow(context: &Context<'_>, recorder: &Recorder, taps: &[Placed]) -> Follower {
    let taps: Vec<latlab_trace::taps::Live> = taps.iter().map(|placed| placed.tap.live()).collect();
    let warmup_ns = context.measurement.warmup.0;
    let wanted = Wanted {
        skip_ns: warmup_ns.saturating_sub(FIRST_IS_LATE_NS),
        ..Wanted::default()
    };
    recorder.follow(&taps, wanted)
}

/// Lets somebody read while it records, where there is a processor for that.
fn start_reader(
    context: &Context<'_>,
    pins: Pins,
    follower: Follower,
    trace: &mut Trace,
) -> Option<Reader> {
    let way = way(context);
    let nodes = way[1..way.len() - 1].iter();
    let confined = nodes.filter_map(|name| context.lab.plan().node(name)?.cpuset.as_ref());
    let seats = reader::Seats {
        own: own_cpus().into_iter().map(u32::from).collect(),
        sender: pins.sender,
        device: pins.receiver,
        confined: confined.flat_map(CpuList::iter).collect(),
    };
    let why = match seats.reader(context.measurement.device) {
        Some(seat) => match Reader::start(follower, seat) {
            Ok(reader) => return Some(reader),
            Err(error) => error.to_string(),
        },
        None => "every processor is measured".into(),
    };
    trace.unknown.push(format!(
        "nobody could read the recorder's rings while it recorded ({why}): of a run that is longer than they \
         are, only the end is explained"
    ));
    None
}

fn own_cpus() -> BTreeSet<u16> {
    let own = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let all = (0..1024u16).filter(|&cpu| own.is_set(usize::from(cpu)));
    all.collect()
}

/// The processors that the lab can use: this process's own, and those its nodes are placed on.
fn cpus(context: &Context<'_>) -> Vec<u16> {
    let mut all = own_cpus();
    for node in &context.lab.plan().nodes {
        if let Some(set) = &node.cpuset {
            all.extend(set.iter().filter_map(|cpu| u16::try_from(cpu).ok()));
        }
    }
    all.into_iter().take(MOST_CPUS).collect()
}

fn conclude(
    context: &Context<'_>,
    timed: Timed,
    recorder: Option<(Recorder, Option<Follower>)>,
    mut trace: Trace,
) -> Measured {
    let through = &context.measurement.through;
    let link = context.reach.link;
    for (hop, (before, behind, fates)) in timed.hops().enumerate() {
        let device = through.get(hop).map(|node| node.value.clone());
        trace.hops.push(Hop {
            device: device.unwrap_or_else(|| context.lab.plan().links[link].name.clone()),
            before: before.into(),
            behind: behind.into(),
            counters: counters(fates),
            impossible: fates.impossible,
            no_room: fates.no_room,
        });
    }
    let events = recorder.map_or(Vec::new(), |(recorder, follower)| {
        let (spans, tasks) = timed.slowest();
        let recorded = recorder.finish_around(follower, &spans, &tasks);
        note_gaps(&recorded.gaps, &mut trace);
        recorded.events
    });
    say_what_is_unknown(context, &timed, &mut trace);
    Measured {
        counters: timed.counters(),
        trace: Some(Recorded {
            trace,
            timed,
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

/// What the recorder does not know.
fn note_gaps(gaps: &recorder::Gaps, trace: &mut Trace) {
    trace.steal_known = gaps.steal_known;
    trace.watched = gaps
        .processors
        .iter()
        .map(|one| WatchedCpu {
            cpu: one.cpu,
            complete_from_ns: one.complete_from_ns,
            overwritten: one.overwritten,
            lost: one.lost.clone(),
            not_kept: one.not_kept.clone(),
        })
        .collect();
    for (point, reason) in &gaps.missing {
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
}

fn say_what_is_unknown(context: &Context<'_>, timed: &Timed, trace: &mut Trace) {
    let own = trace.hops.first().map_or(0, |hop| hop.counters.sent);
    for (tap, foreign) in timed.foreign().filter(|tap| tap.1 > own / FOREIGN_PART) {
        let text = format!(
            "{foreign} frames without this measurement's numbers passed {tap}: they are not timed, and a \
             device that was busy with them is taken for slow"
        );
        trace.unknown.push(text);
    }
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
    for cpu in &trace.watched {
        let (number, overwritten) = (cpu.cpu, cpu.overwritten);
        if cpu.complete_from_ns > 0 {
            let text = format!(
                "the ring of processor {number} was full: {overwritten} older events are lost, and packets \
                 before that time are not explained"
            );
            trace.unknown.push(text);
        } else if overwritten > 0 {
            let text = format!(
                "{overwritten} events of processor {number} were overwritten before they were read: packets \
                 that were under way then are not explained"
            );
            trace.unknown.push(text);
        }
        if !cpu.not_kept.is_empty() {
            let text = format!(
                "of processor {number} nothing was kept around some of the slowest packets ({} times): it was \
                 not known soon enough that they would be",
                cpu.not_kept.len()
            );
            trace.unknown.push(text);
        }
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
