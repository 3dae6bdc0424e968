//! Notes on nodes that stood still within the window.

use latlab_model::results::{Note, Severity};

use super::context::{Context, note};
use crate::stats::Pooled;
use crate::text;

/// The pauses as they were, and the longest time without an arrival beside them.
pub(super) fn paused(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.used && !trial.summary.pauses.is_empty());
    let silences = trials.iter().filter_map(|trial| trial.summary.silence_ns);
    let silences = sorted(silences);
    let silences = Pooled::new([silences.as_slice()])?;
    let pauses = trials.iter().flat_map(|trial| &trial.summary.pauses);
    let mut nodes: Vec<&str> = pauses.clone().map(|pause| pause.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let stood = sorted(pauses.map(|pause| pause.resumed_ns.abs_diff(pause.stopped_ns)));
    let stood = Pooled::new([stood.as_slice()])?;
    let of = |ns: i64| text::nanos(ns as f64);
    let text = format!(
        "{} stood still within the window of {}, for {} to {} each time. The longest time without an arrival was \
         {} (median; {} to {}). Percentiles of these cells are of all packets, those that met a pause included.",
        text::some_of(&nodes),
        text::plural(trials.len(), "trial"),
        of(stood.min()),
        of(stood.max()),
        text::nanos(silences.quantile(0.5)),
        of(silences.min()),
        of(silences.max()),
    );
    let cells = context.cells_of(&trials);
    Some(note(Severity::Info, "paused", text, cells))
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.map(|ns| ns as i64).collect();
    values.sort_unstable();
    values
}
