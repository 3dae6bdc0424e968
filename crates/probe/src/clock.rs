//! The cost and the resolution of a timestamp.
//!
//! Reads the clock again and again. The time between two consecutive reads is the cost of one,
//! because nothing else happens between them. Its distribution shows what a timestamp adds to
//! every sample, and its tail what the machine does to a program that only reads the clock.

use latlab_wire::samples::{
    ClockCounters, Counters, Phase, Probe, Quantiles, Record, Report, SampleKind,
};

use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::output::Output;
use crate::setup::Common;
use crate::sys::Who;
use crate::time;

/// Default number of reads of the clock: a few milliseconds.
const DEFAULT_READS: u64 = 100_000;

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let reads = options
        .number("reads", 2, u64::from(u32::MAX))?
        .unwrap_or(DEFAULT_READS);
    options.finish("clock")?;
    // The stamps, and the steps made of them afterwards.
    common.check_memory(reads, 2 * size_of::<u64>() as u64)?;
    common.apply()?;
    let mut stamps: Vec<u64> = Vec::new();
    stamps.try_reserve_exact(reads as usize).map_err(|error| {
        Error::machine(
            format!("allocate {reads} times"),
            std::io::Error::other(error),
        )
    })?;
    // Not zero, which an allocator could provide without touching the memory.
    stamps.resize(reads as usize, u64::MAX);
    std::hint::black_box(&mut stamps);
    common.ready(output, Probe::Clock, None, None)?;
    output.progress(Phase::Running, None)?;

    let watch = Watch::start(Who::Thread);
    for stamp in &mut stamps {
        *stamp = time::now_ns();
    }
    let health = watch.end(&[]);

    let (started_ns, ended_ns) = (stamps[0], stamps[stamps.len() - 1]);
    let (counters, steps) = judge(&stamps);
    drop(stamps);
    output.progress(Phase::Emitting, None)?;
    output.samples(SampleKind::ClockStep, &steps)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Clock(counters),
        health,
    })
}

/// The results of the stamps, and how often each step occurred.
fn judge(stamps: &[u64]) -> (ClockCounters, Vec<Record>) {
    let pairs = || stamps.iter().zip(&stamps[1..]);
    let backward = pairs().filter(|(before, after)| after < before).count() as u64;
    let mut steps: Vec<u64> = pairs()
        .filter_map(|(before, after)| after.checked_sub(*before))
        .collect();
    let whole = stamps[stamps.len() - 1].saturating_sub(stamps[0]);
    let cost = Quantiles::of(&mut steps);
    let counters = ClockCounters {
        steps: steps.len() as u64 + backward,
        mean_ns: whole as f64 / (stamps.len() - 1) as f64,
        cost,
        smallest_step_ns: steps.iter().find(|step| **step > 0).copied(),
        claimed_resolution_ns: time::claimed_resolution_ns(),
        equal: steps.iter().take_while(|step| **step == 0).count() as u64,
        backward,
    };
    let distribution = steps
        .chunk_by(|a, b| a == b)
        .map(|equal| Record {
            sequence: equal.len() as u32,
            end_ns: equal[0],
            ..Record::default()
        })
        .collect();
    (counters, distribution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_kind() {
        let (counters, steps) = judge(&[100, 120, 120, 140, 135, 175]);
        assert_eq!(
            (counters.steps, counters.equal, counters.backward),
            (5, 1, 1)
        );
        assert_eq!(counters.smallest_step_ns, Some(20));
        assert_eq!((counters.mean_ns, counters.cost.max_ns), (15.0, 40));
        let steps: Vec<(u32, u64)> = steps.iter().map(|r| (r.sequence, r.end_ns)).collect();
        assert_eq!(steps, [(1, 0), (2, 20), (1, 40)]);
    }

    #[test]
    fn a_clock_that_stands_has_no_resolution() {
        let (counters, _) = judge(&[5, 5, 5]);
        assert_eq!((counters.smallest_step_ns, counters.equal), (None, 2));
    }
}
