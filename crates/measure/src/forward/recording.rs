//! The flight recorder of a forward run, one type a phase, so that the compiler keeps their order:
//! [`Loaded`] before the window, [`Running`] in it, [`Stopped`] after it.

use latlab_model::results::Trace;
use latlab_model::units::CpuList;
use latlab_trace::recorder::{Follower, Recorded, Recorder, Settings, Wanted};
use latlab_wire::trace::EVENT_BYTES;

use super::reader::{CpuRoles, Reader};
use super::taps::PlacedTap;
use super::timed::Timed;
use crate::affinity::allowed_cpus;
use crate::context::Context;
use crate::hwlat::{self, SpinWindow};
use crate::memory;
use crate::pin::Pins;
use crate::probes::window_seconds;

/// Events that a packet causes on one CPU, and those of an idle one in a second: generous.
const EVENTS_PER_PACKET: f64 = 16.0;
const EVENTS_PER_SECOND: f64 = 50_000.0;
const MIN_EVENTS: u64 = 1 << 16;
/// Events of one CPU at most: 1.5 GiB of them; the rings take at most this part of the free memory.
const MAX_EVENTS: u64 = 1 << 25;
const RINGS_PART: u64 = 4;
/// Tolerated lateness of the first packet: packets within the rest of the warm-up are not counted.
const FIRST_IS_LATE_NS: u64 = 10_000_000;
/// CPUs that are watched at most.
const MAX_CPUS: usize = 64;

pub(super) struct Loaded {
    recorder: Recorder,
    /// The rings may be too small for the run.
    is_long: bool,
    spun: Vec<SpinWindow>,
}

pub(super) struct Running {
    recorder: Recorder,
    reader: Option<Reader>,
    spun: Vec<SpinWindow>,
}

pub(super) struct Stopped {
    recorder: Recorder,
    follower: Option<Follower>,
    spun: Vec<SpinWindow>,
}

impl Loaded {
    /// Loads the recorder and looks for interruptions from underneath the kernel. `None`, with the reason in
    /// `trace`, leaves the packets unexplained.
    pub fn load(context: &Context<'_>, trace: &mut Trace) -> Option<Loaded> {
        if !context.measurement.record {
            let off = "the flight recorder was off: no packet can be explained";
            trace.unknown.push(off.into());
            return None;
        }
        let rate = context.measurement.rate as f64;
        let stragglers = context.transit().there.as_secs_f64();
        let events = window_seconds(context) * (rate * EVENTS_PER_PACKET + EVENTS_PER_SECOND)
            + stragglers * EVENTS_PER_SECOND;
        let cpus = watched_cpus(context);
        let ring_bytes = memory::available_bytes() / RINGS_PART / cpus.len().max(1) as u64;
        let affordable = ring_bytes / EVENT_BYTES as u64;
        // The kernel rounds a ring's size up to a power of two.
        let max = (affordable / 2 + 1).next_power_of_two();
        let max = max.clamp(MIN_EVENTS, MAX_EVENTS);
        let settings = Settings {
            cpus: cpus.clone(),
            events_per_cpu: (events as u64).clamp(MIN_EVENTS, max) as u32,
            system_calls: context.measurement.system_calls,
        };
        match Recorder::load(&settings) {
            Ok(recorder) => {
                let spun = hwlat::spin_recorded(&recorder, &cpus);
                recorder.forget();
                Some(Loaded {
                    recorder,
                    is_long: events as u64 > max,
                    spun,
                })
            }
            Err(error) => {
                let text = format!("{error}: no packet can be explained");
                trace.unknown.push(text);
                None
            }
        }
    }

    /// Begins to record. The rings of a long run are read meanwhile, if there is a CPU for that.
    pub fn start(
        self,
        context: &Context<'_>,
        pins: Pins,
        taps: &[PlacedTap],
        trace: &mut Trace,
    ) -> Running {
        let reader = self.is_long.then(|| {
            let taps: Vec<_> = taps.iter().map(PlacedTap::live).collect();
            let warmup_ns = context.measurement.warmup.0;
            let wanted = Wanted {
                skip_ns: warmup_ns.saturating_sub(FIRST_IS_LATE_NS),
                ..Wanted::default()
            };
            let follower = self.recorder.follow(&taps, wanted);
            start_reader(context, pins, follower, trace)
        });
        self.recorder.start();
        Running {
            recorder: self.recorder,
            reader: reader.flatten(),
            spun: self.spun,
        }
    }
}

impl Running {
    pub fn stop(self) -> Stopped {
        self.recorder.stop();
        Stopped {
            recorder: self.recorder,
            follower: self.reader.and_then(Reader::stop),
            spun: self.spun,
        }
    }
}

impl Stopped {
    /// Looks for interruptions from underneath the kernel again; those found both before and after the
    /// window were there in it too.
    pub fn note_interruptions(&mut self, context: &Context<'_>, trace: &mut Trace) {
        let after = hwlat::spin_recorded(&self.recorder, &watched_cpus(context));
        self.spun.extend(after);
        trace.hwlat = hwlat::found(&self.spun);
        trace.stalls = hwlat::stalls(&self.spun, &trace.hwlat);
    }

    /// The events around the slowest packets.
    pub fn finish(self, timed: &Timed) -> Recorded {
        let (spans, tasks) = timed.slowest();
        self.recorder.finish_around(self.follower, &spans, &tasks)
    }
}

fn start_reader(
    context: &Context<'_>,
    pins: Pins,
    follower: Follower,
    trace: &mut Trace,
) -> Option<Reader> {
    let path = context.path();
    let nodes = path[1..path.len() - 1].iter();
    let confined = nodes.filter_map(|way| context.lab.plan().node(way.node)?.cpuset.as_ref());
    let roles = CpuRoles {
        allowed: allowed_cpus(),
        sender: pins.sender,
        device: pins.receiver,
        confined: confined.flat_map(CpuList::iter).collect(),
    };
    let why = match roles.reader(context.measurement.device) {
        Some(cpu) => match Reader::start(follower, cpu) {
            Ok(reader) => return Some(reader),
            Err(error) => error.to_string(),
        },
        None => "every CPU is measured".into(),
    };
    trace.unknown.push(format!(
        "the recorder's rings could not be read while it recorded ({why}): of a run that is longer than they \
         are, only the end is explained"
    ));
    None
}

/// The CPUs that the lab can use: those of this process, and those its nodes are confined to.
fn watched_cpus(context: &Context<'_>) -> Vec<u16> {
    let mut all = allowed_cpus();
    for node in &context.lab.plan().nodes {
        all.extend(node.cpuset.iter().flat_map(CpuList::iter));
    }
    let recordable = all.into_iter().filter_map(|cpu| u16::try_from(cpu).ok());
    recordable.take(MAX_CPUS).collect()
}
