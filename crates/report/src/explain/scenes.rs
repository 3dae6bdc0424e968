//! The CPUs' timelines around the slowest packets, of bounded size.

use latlab_samples::Passage;

use crate::attribution::{Attribution, Capture, Lane, Lanes, joined};

/// Steps of a device and cell at most, the slowest packets first: half a megabyte of the page.
pub const STEPS: usize = 40_000;

pub fn scenes(
    capture: &Capture,
    attribution: &Attribution,
    around: &[Passage],
) -> Vec<(u64, u64, Vec<Lane>)> {
    let lanes = Lanes::new(capture, around);
    let worst = &attribution.worst;
    let way = |passage: &Passage| (passage.in_ns, passage.out_ns.unwrap_or(passage.in_ns));
    let ranges = joined(worst.iter().map(|one| way(&one.passage)));
    let mut is_taken = vec![false; ranges.len()];
    let (mut left, mut all) = (STEPS, Vec::new());
    for one in worst {
        let at = ranges.partition_point(|&(_, to)| to < one.passage.in_ns);
        let Some(&(from, to)) = ranges.get(at) else {
            continue;
        };
        if std::mem::replace(&mut is_taken[at], true) {
            continue;
        }
        let lanes = lanes.between(from, to);
        if let Some(rest) = left.checked_sub(steps(&lanes)) {
            left = rest;
            all.push((from, to, lanes));
        }
    }
    all
}

pub fn steps(lanes: &[Lane]) -> usize {
    lanes.iter().map(|l| l.tasks.len() + l.upon.len()).sum()
}
