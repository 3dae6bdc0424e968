//! Notes on times that cannot be right, or are uncertain.

use std::collections::BTreeMap;

use latlab_model::results::{Note, Severity};

use super::context::{Context, numbers};
use crate::summarise::trials::TrialData;
use crate::text;

/// A clock error of this share of the median is named, of [`CLOCK_SHARE_SERIOUS`] serious.
const CLOCK_SHARE: f64 = 0.1;

const CLOCK_SHARE_SERIOUS: f64 = 0.5;

/// Rows below which equal data may be chance.
const IDENTICAL_ROWS: u64 = 20;

pub(super) fn wrapped(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.facts.wraps > 0);
    let jumps: u64 = trials.iter().map(|trial| trial.facts.wraps).sum();
    let text = format!(
        "Latency jumps by 2^32 ns between neighbours ({} in {}): the mark of a 32-bit timestamp \
         that wrapped, not of a network.",
        text::plural(jumps as usize, "time"),
        numbers(&trials)
    );
    context.note_on(&trials, Severity::Serious, "clock-wrap", text)
}

pub(super) fn negative(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.facts.negative > 0);
    let samples: u64 = trials.iter().map(|trial| trial.facts.negative).sum();
    let text = format!(
        "Arrived before they were sent: {} in {}. The two clocks were not mapped well enough, and \
         positive latencies are wrong by as much.",
        text::plural(samples as usize, "sample"),
        numbers(&trials)
    );
    context.note_on(&trials, Severity::Serious, "negative", text)
}

pub(super) fn identical(context: &Context<'_>) -> Option<Note> {
    let mut seen: BTreeMap<(u64, u64), Vec<&TrialData>> = BTreeMap::new();
    for trial in context
        .trials
        .values()
        .filter(|t| t.facts.received >= IDENTICAL_ROWS)
    {
        seen.entry((trial.facts.received, trial.facts.fingerprint))
            .or_default()
            .push(trial);
    }
    let same: Vec<&TrialData> = seen
        .into_values()
        .filter(|t| t.len() > 1)
        .flatten()
        .collect();
    let text = format!(
        "The same latencies to the nanosecond in {}: a file was copied or the probe is broken. No \
         two measurements agree like that.",
        numbers(&same)
    );
    context.note_on(&same, Severity::Serious, "identical", text)
}

pub(super) fn clock(context: &Context<'_>) -> Option<Note> {
    // The clock's error bound as a share of the trial's own median.
    let share = |trial: &TrialData| {
        let error = trial.summary.clock_error_ns? as f64;
        let median = trial.summary.spread_ns?.median.abs();
        Some(if median > 0.0 {
            error / median
        } else {
            f64::INFINITY
        })
    };
    let trials = context.trials_where(|trial| share(trial).is_some_and(|s| s >= CLOCK_SHARE));
    let worst = trials.iter().copied().max_by(|a, b| {
        share(a)
            .unwrap_or_default()
            .total_cmp(&share(b).unwrap_or_default())
    })?;
    let serious = share(worst).unwrap_or_default() >= CLOCK_SHARE_SERIOUS;
    let text = format!(
        "One-way times between two clocks carry an error of up to {} in {}, {} of the median there. \
         Differences smaller than that mean nothing.",
        text::nanos(worst.summary.clock_error_ns.unwrap_or_default() as f64),
        text::plural(trials.len(), "trial"),
        text::quantity(share(worst).unwrap_or_default(), "1"),
    );
    let severity = if serious {
        Severity::Serious
    } else {
        Severity::Caution
    };
    context.note_on(&trials, severity, "clock", text)
}
