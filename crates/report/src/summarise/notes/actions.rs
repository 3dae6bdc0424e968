//! Notes on what was done to nodes within the window.

use latlab_model::results::{ActionKind, ActionRecord, Note, Severity};

use super::context::Context;
use crate::lives::done;
use crate::stats::Pooled;
use crate::text;

/// The actions as they were, and the longest time without an arrival beside them.
pub(super) fn actions(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.used && !trial.summary.actions.is_empty());
    let silences = trials.iter().filter_map(|trial| trial.summary.silence_ns);
    let silences = sorted(silences);
    let silences = Pooled::new([silences.as_slice()])?;
    let actions = trials.iter().flat_map(|trial| &trial.summary.actions);
    let mut kinds: Vec<(ActionKind, &str)> = actions
        .clone()
        .map(|action| (action.act, action.node.as_str()))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(act, node)| format!("{node} was {}", done(act)))
        .collect();
    let stood = sorted(actions.filter_map(ActionRecord::stood_ns));
    let stood = Pooled::new([stood.as_slice()]).map_or(String::new(), |stood| {
        let (least, most) = (stood.min() as f64, stood.max() as f64);
        format!(
            ", and stood still for {} to {} each time",
            text::nanos(least),
            text::nanos(most)
        )
    });
    let text = format!(
        "{} within the window of {}{stood}. The longest time without an arrival was {} (median; {} to {}). Percentiles \
         of these cells are of all packets, also of those that had to wait for it.",
        text::some_of(&kinds),
        text::plural(trials.len(), "trial"),
        text::nanos(silences.quantile(0.5)),
        text::nanos(silences.min() as f64),
        text::nanos(silences.max() as f64),
    );
    context.note_on(&trials, Severity::Info, "actions", text)
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.map(|ns| ns as i64).collect();
    values.sort_unstable();
    values
}
