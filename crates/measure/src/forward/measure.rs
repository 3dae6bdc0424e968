//! The order of a forward run.

use std::net::SocketAddr;
use std::time::Duration;

use latlab_model::results::{Counters, Hop, Trace};
use latlab_samples::table::Stack;
use latlab_trace::recorder::call_names;
use latlab_trace::taps::Seen;
use latlab_trace::taps::matching::HopCounters;
use latlab_wire::trace::TAP_RECORD_BYTES;

use super::recording::{Loaded, Running, Stopped};
use super::stacks::Sampling;
use super::taps::{self, PlacedTap};
use super::timed::Timed;
use super::{nothing, unknown};
use crate::actions::Acted;
use crate::context::Context;
use crate::devices::Devices;
use crate::endpoint::{Endpoint, Output};
use crate::error::Error;
use crate::measured::{Measured, Recorded};
use crate::pin::Pins;
use crate::probes::{self, HANDOVER_TIMEOUT, Load};
use crate::{actions, floor, memory, ruler};

/// Bytes of a packet in the sender's record of its schedule.
const SCHEDULE_BYTES: u64 = 32;

/// Measures once. Fails when a tap cannot be attached or an endpoint fails. A flight recorder that cannot run is no
/// error: the packets then stay unexplained, and the trial says so.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    let floor = floor::packets(context)?;
    actions::prepare(context)?;
    require_memory(context)?;
    let mut trace = Trace::default();
    let recorder = Loaded::load(context, &mut trace);
    let window = Window::open(context, recorder, &mut trace)?;
    let mut closed = window.close(context, &mut trace)?;
    if let Some(recorder) = &mut closed.recorder {
        recorder.note_interruptions(context, &mut trace);
    }
    trace.held = closed.acted.held;
    let timed = Timed::new(&mut closed.sent, closed.seen);
    nothing::refuse(context, &timed)?;
    let mut measured = conclude(context, timed, closed.recorder, trace);
    if let Some(recorded) = &mut measured.trace {
        recorded.stacks = closed.stacks;
    }
    measured.floor = Some(floor);
    measured.actions = closed.acted.records;
    measured.add_endpoint("sender", context.sender(), &closed.sent);
    for (node, output) in &closed.devices {
        // Preemption of a device that polls is part of the measurement, so no check judges it.
        measured.add_node("device", node, output);
    }
    Ok(measured)
}

/// Refuses a run that does not fit into half of the free memory: each tap's records, which are allocated at
/// once, and the sender's schedule, twice while it is handed over.
fn require_memory(context: &Context<'_>) -> Result<(), Error> {
    let taps = context.path().len().max(3) as u64 - 1;
    let bytes_each = taps * TAP_RECORD_BYTES as u64 + 2 * SCHEDULE_BYTES;
    memory::require(probes::packets_with_slack(context), bytes_each)
}

/// Devices, taps and recorder, ready for the packets.
struct Window {
    pins: Pins,
    devices: Devices,
    sink: Endpoint,
    to: String,
    taps: Vec<PlacedTap>,
    recorder: Option<Running>,
    sampling: Option<Sampling>,
}

/// The yield of a window that is over.
struct Closed {
    sent: Output,
    acted: Acted,
    devices: Vec<(String, Output)>,
    seen: Vec<(String, Seen)>,
    recorder: Option<Stopped>,
    stacks: Vec<Stack>,
}

impl Window {
    fn open(
        context: &Context<'_>,
        recorder: Option<Loaded>,
        trace: &mut Trace,
    ) -> Result<Window, Error> {
        let pins = match context.measurement.through.first() {
            Some(device) => Pins::of_device(context, &device.value),
            None => Pins::of(context),
        };
        let devices = Devices::start(context, pins)?;
        let (sink, port) = probes::discard(context)?;
        measure_ruler(pins.sender, trace);
        let taps = taps::attach(context, probes::packets_with_slack(context))?;
        let sampling = Sampling::start(context, trace);
        let recorder = recorder.map(|loaded| loaded.start(context, pins, &taps, trace));
        Ok(Window {
            pins,
            devices,
            sink,
            to: SocketAddr::new(context.reach.address, port).to_string(),
            taps,
            recorder,
            sampling,
        })
    }

    /// Sends the packets, and stops everything before the first error is returned.
    fn close(self, context: &Context<'_>, trace: &mut Trace) -> Result<Closed, Error> {
        let load = Load::of(context, &self.to);
        let source = probes::source(context, &load, self.pins.sender);
        let warmup = Duration::from_millis(load.warmup_ms);
        let sent = source
            .map_err(Error::from)
            .and_then(|source| actions::beside(context, source, warmup));
        probes::await_stragglers(context);
        let recorder = self.recorder.map(Running::stop);
        let stacks = self.sampling.map(|sampling| sampling.finish(trace));
        let seen = self.taps.into_iter().map(PlacedTap::detach);
        let seen = seen.collect::<Result<Vec<_>, _>>()?;
        let (sent, acted) = sent?;
        self.sink.stop(HANDOVER_TIMEOUT)?;
        Ok(Closed {
            sent,
            acted,
            devices: self.devices.stop(HANDOVER_TIMEOUT)?,
            seen,
            recorder,
            stacks: stacks.unwrap_or_default(),
        })
    }
}

/// Measures the taps' error; without a ruler it stays unknown.
fn measure_ruler(cpu: Option<u32>, trace: &mut Trace) {
    match ruler::measure(cpu) {
        Ok(ruler) => trace.ruler = Some(ruler),
        Err(error) => trace.unknown.push(format!(
            "the taps' own error could not be measured: {error}"
        )),
    }
}

fn conclude(
    context: &Context<'_>,
    timed: Timed,
    recorder: Option<Stopped>,
    mut trace: Trace,
) -> Measured {
    let through = &context.measurement.through;
    let link = context.reach.link;
    for (hop, (before, behind, counters)) in timed.hops().enumerate() {
        let device = through.get(hop).map(|node| node.value.clone());
        trace.hops.push(Hop {
            device: device.unwrap_or_else(|| context.lab.plan().links[link].name.clone()),
            before: before.into(),
            behind: behind.into(),
            counters: of_hop(counters),
            impossible: counters.impossible,
            no_room: counters.no_room,
        });
    }
    let events = recorder.map_or(Vec::new(), |recorder| {
        let recorded = recorder.finish(&timed);
        unknown::note_recorder(&recorded.gaps, &mut trace);
        trace.system_calls = call_names(&recorded.events);
        recorded.events
    });
    unknown::note(context, &timed, &mut trace);
    Measured {
        counters: timed.counters(),
        trace: Some(Recorded {
            trace,
            timed,
            events,
            stacks: Vec::new(),
        }),
        ..Measured::default()
    }
}

fn of_hop(hop: &HopCounters) -> Counters {
    Counters {
        sent: hop.entered,
        received: hop.left,
        lost: hop.lost,
        duplicated: hop.duplicated,
        reordered: hop.reordered,
        unmatched: hop.unmatched,
        corrupted: hop.corrupted,
    }
}
