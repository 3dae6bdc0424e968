//! The slow packets of one device in one cell.

use std::cmp::Reverse;

use hdrhistogram::Histogram;
use latlab_model::results::{Hop, Ruler};
use latlab_samples::table::Stack;

use super::code::Code;
use super::scenes;
use super::tables::{HopAttribution, Tables};
use crate::attribution::{Attribution, Blame, Device, Explained, Lane, WORST, blame};
use crate::counters::sum;

/// Quantiles of the tails; 0 stands for all explained packets.
pub const QUANTILES: [f64; 4] = [0.99, 0.999, 0.9999, 0.0];

#[derive(Debug)]
pub struct Explanation {
    pub cell: String,
    /// The device and its taps; the counters are those of all trials.
    pub hop: Hop,
    pub trials: Vec<Part>,
    pub attribution: Attribution,
    /// The trial of each of them.
    pub of_trial: Vec<u32>,
    /// Latencies of all packets, to three digits.
    pub latency: Histogram<u64>,
    /// Where in its code the device was, if its stacks were sampled.
    pub code: Option<Code>,
}

/// Facts of one trial beside its packets.
#[derive(Debug)]
pub struct Part {
    pub trial: u32,
    pub began_ns: u64,
    pub device: Device,
    /// Kernel events that the rings lost.
    pub overwritten: u64,
    /// The taps' own error.
    pub ruler: Option<Ruler>,
    /// CPU timelines around its slowest packets: begin, end, lanes.
    pub scenes: Vec<(u64, u64, Vec<Lane>)>,
}

impl Explanation {
    /// One trial, with the device at a place along the path.
    pub(super) fn of(tables: &Tables, place: usize, mut found: HopAttribution) -> Explanation {
        let code = code(tables, place, &mut found.attribution);
        let number = tables.trial.trial;
        let overwritten = tables.trace.watched.iter().map(|cpu| cpu.overwritten);
        let part = Part {
            trial: number,
            began_ns: found.survey.began_ns,
            device: found.attribution.device.clone(),
            overwritten: overwritten.sum(),
            ruler: tables.trace.ruler,
            scenes: scenes::scenes(&tables.capture, &found.attribution, &found.around),
        };
        Explanation {
            cell: tables.trial.cell.clone(),
            hop: tables.trace.hops[place].clone(),
            trials: vec![part],
            of_trial: vec![number; found.attribution.worst.len()],
            attribution: found.attribution,
            latency: found.survey.latency,
            code,
        }
    }

    /// Joins the packets of another trial, and keeps the slowest of both.
    pub(super) fn add(&mut self, other: Explanation) {
        self.trials.extend(other.trials);
        // Both histograms resize themselves, so every value fits.
        self.latency.add(&other.latency).ok();
        match (&mut self.code, other.code) {
            (Some(mine), Some(theirs)) => mine.join(&theirs),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
        self.hop.counters = sum([self.hop.counters, other.hop.counters].into_iter());
        self.hop.impossible = self.hop.impossible.saturating_add(other.hop.impossible);
        self.hop.no_room = self.hop.no_room.saturating_add(other.hop.no_room);
        let (mine, theirs) = (&mut self.attribution, other.attribution);
        mine.packets += theirs.packets;
        mine.usual_ns = mine.usual_ns.max(theirs.usual_ns);
        for text in theirs.unknown {
            if !mine.unknown.contains(&text) {
                mine.unknown.push(text);
            }
        }
        let old = std::mem::take(&mut mine.worst);
        let of_old = std::mem::take(&mut self.of_trial);
        let mut both: Vec<(u32, Explained)> = of_old.into_iter().zip(old).collect();
        both.extend(other.of_trial.into_iter().zip(theirs.worst));
        both.sort_by_key(|(trial, one)| {
            let sequence = one.passage.sequence;
            (Reverse(one.latency_ns()), *trial, sequence)
        });
        both.truncate(WORST);
        (self.of_trial, mine.worst) = both.into_iter().unzip();
        mine.threshold_ns = mine.worst.last().map_or(0, Explained::latency_ns);
    }

    #[must_use]
    pub fn blames(&self) -> Vec<Blame> {
        let of = |&quantile: &f64| {
            let mut blame = blame(&self.attribution, quantile)?;
            // The fastest explained packet is slower than the percentile then.
            if blame.explained < blame.beyond {
                blame.latency_ns = self.latency.value_at_quantile(quantile);
            }
            Some(blame)
        };
        QUANTILES.iter().filter_map(of).collect()
    }

    /// The taps' own error: the worst of the trials.
    #[must_use]
    pub fn ruler(&self) -> Option<Ruler> {
        let rulers = self.trials.iter().filter_map(|part| part.ruler);
        rulers.reduce(|a, b| Ruler {
            median_ns: a.median_ns.max(b.median_ns),
            p9999_ns: a.p9999_ns.zip(b.p9999_ns).map(|(a, b)| a.max(b)),
            samples: a.samples.min(b.samples),
            lost: a.lost.max(b.lost),
        })
    }
}

/// The slowest packets whose code is held against that of the others, as a part of all.
const SLOWEST: usize = 100;

/// Divides the device's stacks by its slowest packets, and notes the function of each explained one.
fn code(tables: &Tables, place: usize, attribution: &mut Attribution) -> Option<Code> {
    let trace = &tables.trace;
    trace.stacks.as_ref()?;
    let own = tables.stacks.iter();
    let own = own.filter(|stack| usize::from(stack.hop) == place);
    let own: Vec<Stack> = own.cloned().collect();
    let time = |one: &Explained| (one.passage.in_ns, one.passage.out_ns.unwrap_or(0));
    let slowest = (attribution.packets / SLOWEST).max(1);
    let slow = attribution.worst.iter().take(slowest).map(time);
    let code = Code::of(&own, slow.collect(), trace.sample_rate, trace.samples_lost);
    let namer = code.namer(&own);
    for one in &mut attribution.worst {
        let (from, to) = time(one);
        one.function = namer.function(from, to);
    }
    Some(code)
}
