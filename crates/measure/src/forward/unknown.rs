//! Gaps of a trace, in words for its reader.

use latlab_model::results::{Trace, WatchedCpu};
use latlab_trace::recorder;

use super::timed::Timed;
use crate::context::Context;

/// Foreign frames are mentioned above this part of the measurement's: a few resolve addresses.
const FOREIGN_PART: u64 = 100;

pub(super) fn note_recorder(gaps: &recorder::Gaps, trace: &mut Trace) {
    trace.steal_known = gaps.steal_known;
    trace.watched = gaps
        .cpus
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
        trace.unknown.push(format!(
            "{point} could not be recorded ({reason}): time spent there is not named"
        ));
    }
    if gaps.missed > 0 {
        trace.unknown.push(format!(
            "{} kernel events came while another was being recorded",
            gaps.missed
        ));
    }
}

/// The gaps of the taps, the rings and the guests.
pub(super) fn note(context: &Context<'_>, timed: &Timed, trace: &mut Trace) {
    let mut unknown = Vec::new();
    of_taps(timed, trace, &mut unknown);
    trace
        .watched
        .iter()
        .for_each(|cpu| of_ring(cpu, &mut unknown));
    let path = context.path();
    let nodes = path
        .iter()
        .filter_map(|way| context.lab.plan().node(way.node));
    let guests = nodes.filter(|node| node.kind().is_guest());
    unknown.extend(guests.map(|node| {
        format!(
            "what the kernel inside of `{}` did is not recorded",
            node.name
        )
    }));
    trace.unknown.extend(unknown);
}

fn of_taps(timed: &Timed, trace: &Trace, unknown: &mut Vec<String>) {
    let own = trace.hops.first().map_or(0, |hop| hop.counters.sent);
    for (tap, foreign) in timed.foreign().filter(|tap| tap.1 > own / FOREIGN_PART) {
        unknown.push(format!(
            "{foreign} frames without this measurement's numbers passed {tap}: they are not timed, and a \
             device that was busy with them is taken for slow"
        ));
    }
    for hop in &trace.hops {
        if hop.no_room > 0 {
            unknown.push(format!(
                "{} packets found no room in the taps of {}",
                hop.no_room, hop.device
            ));
        }
        if hop.counters.sent == 0 {
            let before = &hop.before;
            unknown.push(format!("no packet of this measurement passed {before}"));
        }
    }
}

fn of_ring(ring: &WatchedCpu, unknown: &mut Vec<String>) {
    let (cpu, overwritten) = (ring.cpu, ring.overwritten);
    if ring.complete_from_ns > 0 {
        unknown.push(format!(
            "the ring of CPU {cpu} was full: {overwritten} older events are lost, and packets before that time \
             are not explained"
        ));
    } else if overwritten > 0 {
        unknown.push(format!(
            "{overwritten} events of CPU {cpu} were overwritten before they were read: packets that were under \
             way then are not explained"
        ));
    }
    if !ring.not_kept.is_empty() {
        unknown.push(format!(
            "of CPU {cpu} nothing was kept around some of the slowest packets ({} times): it was not known soon \
             enough that they would be",
            ring.not_kept.len()
        ));
    }
}
