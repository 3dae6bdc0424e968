//! From the record of a trial to the causes of its slow packets.

use std::collections::BTreeMap;

use latlab_samples::Passage;

use super::capture::Capture;
use super::cause::Cause;
use super::device::{Device, identify};
use super::device_timeline::DeviceTimeline;
use super::split::{self, Explained};
use super::survey::{Pick, Survey};

#[derive(Debug, Clone)]
pub struct Attribution {
    pub device: Device,
    /// The slowest packets, the slowest first.
    pub worst: Vec<Explained>,
    /// Packets with both times.
    pub packets: usize,
    /// Latency below which no packet was explained, in ns.
    pub threshold_ns: u64,
    /// Work on one packet beyond this is unusual, in ns.
    pub usual_ns: u64,
    /// Limits of the record, in words.
    pub unknown: Vec<String>,
}

#[must_use]
pub fn attribute(capture: &Capture, count: usize) -> Attribution {
    let mut packets: Vec<&Passage> = capture.passages.iter().collect();
    // In the order of arrival; the sequence number decides between two that came at once.
    packets.sort_by_key(|p| (p.in_ns, p.flow, p.sequence));
    let mut survey = Survey::new(count);
    packets.iter().for_each(|packet| survey.add(packet));
    let mut pick = survey.pick();
    packets.iter().for_each(|packet| pick.add(packet));
    conclude(capture, &survey, &pick, None)
}

/// Explains the slowest packets after two passes over all of them; the capture's own packets are not read. `node` is the
/// one in which the device is.
#[must_use]
pub fn conclude(
    capture: &Capture,
    survey: &Survey,
    pick: &Pick,
    node: Option<&str>,
) -> Attribution {
    let (device, seen) = identify(survey, &capture.events);
    let packets = split::Packets {
        all: pick.packets.iter().collect(),
        turns: &pick.turns,
        usual_ns: survey.usual_ns(),
        load: survey.load(),
    };
    let timeline = DeviceTimeline::new(capture, &packets.all, &device, &[seen]).in_node(node);
    let worst = split::split(&timeline, &packets, &device, &pick.order());
    Attribution {
        unknown: unknown(capture, &worst),
        device,
        packets: survey.packets as usize,
        threshold_ns: worst.last().map_or(0, Explained::latency_ns),
        usual_ns: packets.usual_ns,
        worst,
    }
}

/// Causes of each of the `gaps` of a CPU-bound task, with their part of it in ns. A gap without an event may
/// be an interrupt's entry, or belong to a known periodic interruption from underneath the kernel.
#[must_use]
pub fn interruptions(
    capture: &Capture,
    task: u32,
    cpu: u16,
    gaps: &[(u64, u64)],
) -> Vec<Vec<(Cause, u64)>> {
    let timeline = DeviceTimeline::for_spinner(capture, task, cpu, gaps);
    let one = |&(from, to): &(u64, u64)| {
        let mut parts: BTreeMap<Cause, u64> = Default::default();
        for span in timeline.task_spans(from, to) {
            // A cause that began earlier counts from the gap's begin on.
            let ns = span.end_ns - span.start_ns.max(from).min(span.end_ns);
            *parts.entry(span.cause).or_insert(0) += ns;
        }
        if parts.keys().all(|cause| *cause == Cause::Running) {
            let silent = timeline.pending_interrupt(cpu, from, to);
            let silent = silent.or_else(|| timeline.underneath(cpu, from));
            parts.extend(silent.map(|cause| (cause, to - from)));
        }
        parts.into_iter().collect()
    };
    gaps.iter().map(one).collect()
}

fn unknown(capture: &Capture, worst: &[Explained]) -> Vec<String> {
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
    let is_unexplained = |one: &Explained| one.by_cause().contains_key(&Cause::Unexplained);
    if !capture.events.is_empty() && worst.iter().any(is_unexplained) {
        let text = "no thread watched the device's CPU for silent stalls: whether long work was its own is not known";
        all.push(text.into());
    }
    all
}
