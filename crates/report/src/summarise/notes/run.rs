//! Notes on missing or damaged parts of the run.

use latlab_model::results::{Note, RunState, Severity, TrialOutcome};
use latlab_samples::Damage;

use super::context::{Context, note, numbers};
use crate::summarise::trials::TrialData;
use crate::text;

pub(super) fn state(context: &Context<'_>) -> Option<Note> {
    let planned = context.manifest.order.len();
    let recorded = context.trials.len();
    let (severity, begin) = match &context.manifest.state {
        RunState::Complete if recorded == planned => return None,
        RunState::Complete => (
            Severity::Serious,
            "The run is marked complete, but records of trials are missing".to_owned(),
        ),
        RunState::Running => (
            Severity::Serious,
            "The run did not end: it is still going on, or it was killed".to_owned(),
        ),
        RunState::Incomplete { reason } => (
            Severity::Serious,
            format!("The run stopped early: {}", reason.trim_end_matches('.')),
        ),
    };
    let text = format!(
        "{begin}. {recorded} of {} left a record.",
        text::plural(planned, "trial")
    );
    Some(note(severity, "incomplete", text, Vec::new()))
}

pub(super) fn damaged(context: &Context<'_>) -> Option<Note> {
    if context.damage.is_empty() {
        return None;
    }
    let describe = |(name, damage): &(String, Damage)| match damage {
        Damage::Missing => format!("{name} (missing)"),
        Damage::Changed => format!("{name} (changed)"),
    };
    let files: Vec<String> = context.damage.iter().map(describe).collect();
    let text = format!(
        "Files are not as they were when the run ended: {}. What follows from them is not what was \
         measured.",
        text::some_of(&files)
    );
    Some(note(Severity::Serious, "checksum", text, Vec::new()))
}

pub(super) fn unreadable(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.unreadable);
    let first = trials.first()?.summary.failed.clone().unwrap_or_default();
    let text = format!(
        "Left out because they cannot be read: {} ({first}).",
        numbers(&trials)
    );
    context.note_on(&trials, Severity::Serious, "unreadable", text)
}

pub(super) fn failed(context: &Context<'_>) -> Option<Note> {
    let failed = |trial: &TrialData| {
        let outcome = trial.record.as_ref().map(|record| &record.outcome);
        matches!(outcome, Some(TrialOutcome::Failed { .. }))
    };
    let trials = context.trials_where(failed);
    let first = trials.first()?.summary.failed.clone().unwrap_or_default();
    let cells = context.cells_of(&trials);
    let gone = context.cells_where(|cell| cells.contains(&cell.id) && cell.replicates == 0);
    let severity = if gone.is_empty() {
        Severity::Caution
    } else {
        Severity::Serious
    };
    let text = format!("Failed and left out: {} ({first}).", numbers(&trials));
    Some(note(severity, "failed", text, cells))
}

pub(super) fn unknown_cells(context: &Context<'_>) -> Option<Note> {
    let known = |id: &str| context.manifest.cells.iter().any(|cell| cell.id == id);
    let stray: Vec<String> = context
        .manifest
        .order
        .iter()
        .filter(|planned| !known(&planned.cell))
        .map(|planned| planned.trial.to_string())
        .collect();
    let text = format!(
        "The manifest plans trials of cells that it does not describe: trial {}. They are left out.",
        text::some_of(&stray)
    );
    (!stray.is_empty()).then(|| note(Severity::Serious, "unknown-cell", text, Vec::new()))
}
