//! Why slow packets were slow: the time of each between its taps, split into causes without remainder.
//!
//! Everything here is computed from the saved tables alone (packets' ways and kernel events), needs no
//! root and gives the same answer on any machine. The steps, one file each:
//!
//! ```text
//! survey     which packets are the slowest, what work on one usually costs, what the device is
//! timeline   what each CPU did, and what state the device's task was in, at every instant
//! steal      when the hypervisor underneath had taken a CPU away
//! holes      times of which events are missing
//! server     what the device as a whole was held up by, at every instant of a stretch of time
//! split      each packet's time between its taps, cut along those
//! track      those with running sums, so that a thousand packets of one queue cost no more than one
//! blame      over all packets: which cause owns how much of the tail
//! lanes      what ran on which CPU meanwhile, for drawing
//! ```
//!
//! A device is served first in, first out. While it works on an earlier packet, a later one queues
//! behind it; what interrupts the device interrupts every packet in it alike. So a cause belongs to the
//! device and an instant, and a packet's share of it is the overlap. Packets that queue only because an
//! interruption let a queue build up are counted to that interruption when it comes to the *first*
//! cause, and as queueing in the split.
//!
//! The rules that keep it honest: time for which nothing was recorded is `not recorded`; work on one
//! packet that takes far longer than usual while nothing is seen to happen is `unexplained`; neither
//! is ever given to a cause that merely was near. But for one: what threads that did nothing else saw
//! interrupting this very CPU at regular times before and after, with no event, has what work took
//! longer at just those times in between.

mod blame;
mod cause;
mod holes;
mod knobs;
mod lanes;
mod server;
mod split;
mod steal;
mod survey;
mod timeline;
mod track;

#[cfg(test)]
mod tests;

pub use blame::{Blame, BlameRow, blame};
pub use cause::Cause;
pub use holes::Hole;
pub use knobs::{Remedy, remedy};
pub use lanes::{Lane, Lanes, task_name};
pub use split::Explained;
pub use survey::{Pick, Survey, joined};
pub use track::Piece;

use latlab_model::results::Hwlat;
use latlab_samples::Passage;
use latlab_wire::trace::Event;
pub use latlab_wire::trace::{WINDOW_MARGIN_NS as MARGIN_NS, WORST_PACKETS as WORST};

/// What one trial recorded.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// Every packet's way through the device, in any order.
    pub passages: Vec<Passage>,
    /// Kernel events around the slowest, in the order of time.
    pub events: Vec<Event>,
    /// CPUs whose events are there, each with the time from which on they are complete.
    pub watched: Vec<(u16, u64)>,
    /// Times after that of which something is missing all the same.
    pub holes: Vec<Hole>,
    /// The hypervisor says what it takes away.
    pub steal_known: bool,
    /// What interrupts the CPUs regularly and is no event.
    pub hwlat: Vec<Hwlat>,
    /// What could not be recorded, to be said with every answer.
    pub unknown: Vec<String>,
}

/// What the device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// A program: this task takes packets from one side to the other.
    Task {
        /// Its number, as the host counts.
        pid: u32,
        /// Its name, if it was seen.
        name: String,
    },
    /// The kernel itself, in whatever context a packet arrives.
    Kernel,
}

/// Everything that can be said about one trial's slow packets.
#[derive(Debug, Clone)]
pub struct Attribution {
    /// What the device is taken for.
    pub device: Device,
    /// The slowest packets, the slowest first.
    pub worst: Vec<Explained>,
    /// How many packets there were with both times.
    pub packets: usize,
    /// Latency below which no packet was explained, in ns.
    pub threshold_ns: u64,
    /// Work on one packet beyond this is not usual, in ns.
    pub usual_ns: u64,
    /// What is not known, in words.
    pub unknown: Vec<String>,
}

/// Explains the slowest `count` packets of a trial that is in memory.
#[must_use]
pub fn attribute(capture: &Capture, count: usize) -> Attribution {
    let mut packets: Vec<&Passage> = capture.passages.iter().collect();
    // In the order of arrival; the sequence number decides between two that came at once.
    packets.sort_by_key(|p| (p.in_ns, p.flow, p.sequence));
    let mut survey = Survey::new(count);
    packets.iter().for_each(|packet| survey.add(packet));
    let mut pick = survey.pick();
    packets.iter().for_each(|packet| pick.add(packet));
    conclude(capture, &survey, &pick)
}

/// Explains the slowest packets after two looks at all of them; the capture's own packets are not
/// looked at.
#[must_use]
pub fn conclude(capture: &Capture, survey: &Survey, pick: &Pick) -> Attribution {
    let (device, seen) = device(survey, &capture.events);
    let packets = split::Packets {
        all: pick.packets.iter().collect(),
        turns: &pick.turns,
        usual_ns: survey.usual_ns(),
    };
    let server = server::Server::new(capture, &packets.all, &device, &[seen]);
    let worst = split::split(&server, &packets, &device, &pick.order());
    Attribution {
        unknown: unknown(capture, &device, &worst),
        device,
        packets: survey.packets as usize,
        threshold_ns: worst.last().map_or(0, Explained::latency_ns),
        usual_ns: packets.usual_ns,
        worst,
    }
}

/// Whose work the packets are, and when and where it was first seen. A program shows as the task in
/// whose context they come out; the kernel carries packets on in the context of whoever sends or is
/// interrupted, so no task stands out or it is the one that sent them.
fn device(survey: &Survey, events: &[Event]) -> (Device, (u64, u16)) {
    let most = survey
        .contexts
        .iter()
        .max_by_key(|&(task, context)| (context.packets, std::cmp::Reverse(*task)));
    let Some((&pid, context)) = most else {
        return (Device::Kernel, (0, 0));
    };
    let name = timeline::name_of(events, pid);
    let is_kernel = name.starts_with("ksoftirqd/") || name.starts_with("napi/");
    let stands_out = context.packets * 10 >= survey.packets * 9;
    let is_own = context.own * 10 >= context.packets * 9;
    let device = if pid != 0 && !is_kernel && stands_out && is_own {
        Device::Task { pid, name }
    } else {
        Device::Kernel
    };
    (device, context.first)
}

/// What took each of the times `gaps` from a task that wants to run on one CPU: causes with their
/// part of it, in ns. One in which nothing is seen may have been an interrupt's way in, or come as regularly
/// as what is known to be underneath the kernel.
#[must_use]
pub fn interruptions(
    capture: &Capture,
    task: u32,
    cpu: u16,
    gaps: &[(u64, u64)],
) -> Vec<Vec<(Cause, u64)>> {
    let server = server::Server::of_runner(capture, task, cpu, gaps);
    let one = |&(from, to): &(u64, u64)| {
        let mut parts: std::collections::BTreeMap<Cause, u64> = Default::default();
        for span in server.of_task(from, to) {
            // What began before is only counted from the gap's begin on.
            let ns = span.end_ns - span.start_ns.max(from).min(span.end_ns);
            *parts.entry(span.cause).or_insert(0) += ns;
        }
        if parts.keys().all(|cause| *cause == Cause::Running) {
            let silent = server.on_its_way(cpu, from, to);
            let silent = silent.or_else(|| server.underneath(cpu, from));
            parts.extend(silent.map(|cause| (cause, to - from)));
        }
        parts.into_iter().collect()
    };
    gaps.iter().map(one).collect()
}

fn unknown(capture: &Capture, device: &Device, worst: &[Explained]) -> Vec<String> {
    let mut all = capture.unknown.clone();
    if capture.events.is_empty() {
        all.push("no kernel events were recorded: no packet can be explained".into());
    } else if !capture.steal_known {
        all.push(
            "this machine does not say what a hypervisor takes from it: time lost that way is \
             unexplained"
                .into(),
        );
    }
    if let (Device::Kernel, false) = (device, worst.is_empty()) {
        all.push("the device is taken for the kernel itself: no program stands behind it".into());
    }
    all
}
