//! Slow packets for the page: rows of numbers beside lists of names, of bounded size.

use std::collections::HashMap;

use latlab_model::results::tail::{self, CauseInfo, SlowPacket, Stretch, Tail};

use super::code::Code;
use super::explanation::{Explanation, Part};
use super::scenes::{STEPS, steps};
use crate::attribution::{Blame, BlameRow, Cause, Device, Lane, Piece, remedy, task_name};
use crate::stats::{CURVE_POINTS, tidy};

/// Steps of all CPUs in the whole page at most.
const ALL_STEPS: usize = 600_000;
/// Slices of packets in the whole page at most, eight megabytes, those of the slowest packets first.
const ALL_SLICES: usize = 600_000;

#[must_use]
pub fn tails(all: &[Explanation]) -> Vec<Tail> {
    let slices = |one: &Explanation| {
        one.attribution
            .worst
            .iter()
            .map(|one| size(&one.pieces))
            .sum()
    };
    let slices = fair(&all.iter().map(slices).collect::<Vec<usize>>(), ALL_SLICES);
    let scenes = |one: &Explanation| {
        let scenes = one.trials.iter().flat_map(|part| &part.scenes);
        scenes
            .map(|(.., lanes)| steps(lanes))
            .sum::<usize>()
            .min(STEPS)
    };
    let scenes = fair(&all.iter().map(scenes).collect::<Vec<usize>>(), ALL_STEPS);
    let shares = slices.into_iter().zip(scenes);
    all.iter()
        .zip(shares)
        .map(|(one, (slices, steps))| tail(one, slices, steps))
        .collect()
}

/// Max-min fair shares: a need below an equal share leaves the rest to the others.
fn fair(needs: &[usize], mut left: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|&at| needs[at]);
    let mut shares = vec![0; needs.len()];
    for (done, at) in order.into_iter().enumerate() {
        shares[at] = needs[at].min(left / (needs.len() - done));
        left -= shares[at];
    }
    shares
}

fn size(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| 1 + piece.parts.len()).sum()
}

/// Numbers values by their first appearance.
struct Places<T> {
    all: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T: Clone + Eq + std::hash::Hash> Places<T> {
    fn new() -> Self {
        Places {
            all: Vec::new(),
            known: HashMap::new(),
        }
    }

    fn of(&mut self, one: &T) -> usize {
        if let Some(&place) = self.known.get(one) {
            return place;
        }
        self.known.insert(one.clone(), self.all.len());
        self.all.push(one.clone());
        self.all.len() - 1
    }
}

/// A tail for the page, with at most this number of slices and steps.
fn tail(one: &Explanation, slices: usize, steps: usize) -> Tail {
    let mut causes: Places<Cause> = Places::new();
    let mut names: Places<String> = Places::new();
    // The largest first, so that lists and legends are in that order.
    let blames = one.blames();
    let blames = blames
        .iter()
        .rev()
        .map(|blame| numbered(blame, &mut causes));
    let mut blames: Vec<tail::Blame> = blames.collect();
    blames.reverse();
    let (stretches, places) = stretches(one, steps, &mut names);
    let attribution = &one.attribution;
    let pairs = attribution.worst.iter().zip(&one.of_trial);
    let mut left = slices;
    let worst = pairs
        .map(|(packet, &trial)| SlowPacket {
            trial,
            flow: packet.passage.flow,
            seq: packet.passage.sequence,
            at_ns: packet.passage.in_ns.saturating_sub(began(one, trial)),
            latency_ns: packet.latency_ns(),
            first: causes.of(&packet.first),
            first_ns: packet.first_ns,
            behind: packet.behind.as_ref().map(|cause| causes.of(cause)),
            stretch: places.get(&(trial, packet.passage.in_ns)).copied(),
            pieces: taken(&packet.pieces, &mut left)
                .iter()
                .map(|piece| tail::Slice {
                    cause: causes.of(&piece.cause),
                    ns: piece.end_ns - piece.start_ns,
                    cpu: piece.cpu,
                    parts: piece
                        .parts
                        .iter()
                        .map(|(cause, ns)| (causes.of(cause), *ns))
                        .collect(),
                })
                .collect(),
        })
        .collect();
    Tail {
        cell: one.cell.clone(),
        device: one.hop.device.clone(),
        program: match &attribution.device {
            Device::Task { name, .. } => Some(name.clone()),
            Device::Kernel => None,
        },
        before: one.hop.before.clone(),
        behind: one.hop.behind.clone(),
        trials: one.trials.iter().map(|part| part.trial).collect(),
        packets: attribution.packets as u64,
        counters: one.hop.counters,
        impossible: one.hop.impossible,
        no_room: one.hop.no_room,
        overwritten: one.trials.iter().map(|part| part.overwritten).sum(),
        threshold_ns: attribution.threshold_ns,
        curve: curve(one),
        ruler: one.ruler(),
        unknown: attribution.unknown.clone(),
        blames,
        worst,
        stretches,
        code: one.code.as_ref().map(Code::drawn),
        causes: causes.all.iter().map(info).collect(),
        names: names.all,
    }
}

/// All of a packet's slices, or none: half of them would be no packet's time.
fn taken<'a>(pieces: &'a [Piece], left: &mut usize) -> &'a [Piece] {
    match left.checked_sub(size(pieces)) {
        Some(rest) => {
            *left = rest;
            pieces
        }
        None => &[],
    }
}

fn info(cause: &Cause) -> CauseInfo {
    let remedy = remedy(cause);
    CauseInfo {
        name: cause.to_string(),
        kind: cause.kind().to_owned(),
        remedy: remedy.map(|remedy| remedy.words.to_owned()),
        knobs: remedy.map_or(Vec::new(), |remedy| {
            remedy.knobs.iter().map(|&knob| knob.to_owned()).collect()
        }),
    }
}

fn numbered(blame: &Blame, causes: &mut Places<Cause>) -> tail::Blame {
    let row = |row: &BlameRow| tail::BlameRow {
        cause: causes.of(&row.cause),
        share: tidy(row.share),
        time_ns: row.time_ns,
        first_of: row.first_of as u64,
    };
    tail::Blame {
        quantile: blame.quantile,
        latency_ns: blame.latency_ns,
        beyond: blame.beyond as u64,
        explained: blame.explained as u64,
        unexplained: tidy(blame.unexplained()),
        rows: blame.rows.iter().map(row).collect(),
    }
}

fn began(one: &Explanation, trial: u32) -> u64 {
    let part = one.trials.iter().find(|part| part.trial == trial);
    part.map_or(0, |part| part.began_ns)
}

/// CPU timelines around the slowest packets, and their index by a packet's trial and time.
fn stretches(
    one: &Explanation,
    mut left: usize,
    names: &mut Places<String>,
) -> (Vec<Stretch>, HashMap<(u32, u64), usize>) {
    let mut all = Vec::new();
    let mut found: HashMap<(u32, u64), usize> = HashMap::new();
    let mut ends: Vec<(u32, u64, u64, usize)> = Vec::new();
    for (packet, &trial) in one.attribution.worst.iter().zip(&one.of_trial) {
        let in_ns = packet.passage.in_ns;
        let parts = one.trials.iter().filter(|part| part.trial == trial);
        let scene = parts
            .flat_map(|part| part.scenes.iter().map(move |scene| (part, scene)))
            .find(|(_, (from, to, _))| (*from..=*to).contains(&in_ns));
        let Some((part, (from, to, lanes))) = scene else {
            continue;
        };
        let known = ends.iter().find(|e| (e.0, e.1) == (trial, *from));
        let place = match known {
            Some(&(.., place)) => Some(place),
            None => left.checked_sub(steps(lanes)).map(|rest| {
                left = rest;
                all.push(stretch(part, *from, *to, lanes, names));
                ends.push((trial, *from, *to, all.len() - 1));
                all.len() - 1
            }),
        };
        found.extend(place.map(|place| ((trial, in_ns), place)));
    }
    (all, found)
}

fn stretch(part: &Part, from: u64, to: u64, lanes: &[Lane], names: &mut Places<String>) -> Stretch {
    let own = match &part.device {
        Device::Task { pid, name } => Some(names.of(&task_name(*pid, name))),
        Device::Kernel => None,
    };
    let lane = |lane: &Lane| tail::Lane {
        cpu: lane.cpu,
        tasks: lane
            .tasks
            .iter()
            .map(|(at, name)| (at.saturating_sub(from), names.of(name)))
            .collect(),
        upon: lane
            .upon
            .iter()
            .map(|(begin, end, name)| (begin - from, end - from, names.of(name)))
            .collect(),
    };
    Stretch {
        trial: part.trial,
        own,
        at_ns: from.saturating_sub(part.began_ns),
        ns: to - from,
        lanes: lanes.iter().map(lane).collect(),
    }
}

/// The percentile curve: points at even distances on the axis of `1 / (1 - p)`.
fn curve(one: &Explanation) -> Vec<(f64, f64)> {
    let count = one.latency.len();
    if count == 0 {
        return Vec::new();
    }
    let n = count as f64;
    let last = CURVE_POINTS - 1;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in 0..=last {
        let x = libm::pow(n, f64::from(step) / f64::from(last));
        let value = one.latency.value_at_quantile(1.0 - 1.0 / x) as f64;
        if points.last().is_none_or(|last| last.0 < x) {
            points.push((tidy(x), value));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_kept_whole_or_not_at_all() {
        let piece = Piece {
            start_ns: 0,
            end_ns: 9,
            cause: Cause::Queueing,
            cpu: None,
            parts: vec![(Cause::Queueing, 6), (Cause::Tick, 3)],
        };
        let mut left = 10;
        let kept = [2, 2, 1, 1].map(|pieces| taken(&vec![piece.clone(); pieces], &mut left).len());
        assert_eq!((kept, left), ([2, 0, 1, 0], 1));
    }

    #[test]
    fn small_needs_leave_the_rest_to_the_others() {
        assert_eq!(fair(&[10, 2, 50, 50], 100), [10, 2, 44, 44]);
        assert_eq!(fair(&[10, 20], 100), [10, 20]);
        assert!(fair(&[], 100).is_empty());
    }
}
