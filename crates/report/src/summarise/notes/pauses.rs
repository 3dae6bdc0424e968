//! Notes on nodes that stood still within the window.

use latlab_model::results::{Note, Severity};

use super::context::{Context, note};
use crate::text;

/// The pauses as they were, and the longest time without an arrival beside them.
pub(super) fn paused(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.used && !trial.summary.pauses.is_empty());
    let silences = trials.iter().filter_map(|trial| trial.summary.silence_ns);
    let mut silences: Vec<u64> = silences.collect();
    silences.sort_unstable();
    let (first, last) = (silences.first()?, silences.last()?);
    let median = silences[silences.len() / 2];
    let pauses = trials.iter().flat_map(|trial| &trial.summary.pauses);
    let mut nodes: Vec<&str> = pauses.clone().map(|pause| pause.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let stood: Vec<u64> = pauses
        .map(|pause| pause.resumed_ns.abs_diff(pause.stopped_ns))
        .collect();
    let shortest = stood.iter().min()?;
    let longest = stood.iter().max()?;
    let of = |ns: u64| text::nanos(ns as f64);
    let text = format!(
        "{} stood still within the window of {}, for {} to {} each time. The longest time without an arrival was \
         {} (median; {} to {}). Percentiles of these cells are of all packets, those that met a pause included.",
        text::some_of(&nodes),
        text::plural(trials.len(), "trial"),
        of(*shortest),
        of(*longest),
        of(median),
        of(*first),
        of(*last),
    );
    let cells = context.cells_of(&trials);
    Some(note(Severity::Info, "paused", text, cells))
}
