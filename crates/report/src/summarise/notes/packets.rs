//! Notes on lost and damaged packets.

use latlab_model::results::{Cell, Counters, Note, Severity};

use super::context::{Context, note, numbers};
use crate::summarise::trials::TrialData;
use crate::text;

/// Losses from this share on are a caution rather than a remark.
const LOSS_SHARE: f64 = 0.001;

pub(super) fn miscounted(context: &Context<'_>) -> Option<Note> {
    let differs = |trial: &TrialData| {
        let counted = trial.summary.counters;
        let rows = trial.facts.rows.saturating_add(unstamped(trial));
        let latencies = trial.facts.received.saturating_add(unstamped(trial));
        trial.used
            && trial
                .record
                .as_ref()
                .is_some_and(|record| record.samples.is_some())
            && (counted.received != latencies
                || counted.sent != rows
                || counted.sent != counted.received.saturating_add(counted.lost))
    };
    let trials = context.trials_where(differs);
    let first = trials.first()?;
    let text = format!(
        "Counters and samples disagree in {} (the first: {} sent, {} received, {} lost by the \
         record; {} rows with {} latencies in the file).",
        numbers(&trials),
        text::count(first.summary.counters.sent),
        text::count(first.summary.counters.received),
        text::count(first.summary.counters.lost),
        text::count(first.facts.rows),
        text::count(first.facts.received),
    );
    context.note_on(&trials, Severity::Caution, "counters", text)
}

/// Packets that arrived without the stamps of both cards: they are counted and have no row.
fn unstamped(trial: &TrialData) -> u64 {
    let checks = trial.summary.checks.iter();
    let share = { checks }.find(|check| check.name == "unstamped");
    let received = trial.summary.counters.received as f64;
    share.map_or(0, |check| (check.value * received).round() as u64)
}

/// Cells with a nonzero counter, and the counter summed over them.
fn counted(context: &Context<'_>, counter: fn(&Counters) -> u64) -> (u64, u64, Vec<String>) {
    let cells = context.cells_where(|cell| counter(&cell.counters) > 0);
    let among = || context.cells.iter().filter(|cell| cells.contains(&cell.id));
    let total = among()
        .map(|cell| counter(&cell.counters))
        .fold(0, u64::saturating_add);
    let sent = among()
        .map(|cell| cell.counters.sent)
        .fold(0, u64::saturating_add);
    (total, sent, cells)
}

pub(super) fn lost(context: &Context<'_>) -> Option<Note> {
    let (lost, sent, cells) = counted(context, |counters| counters.lost);
    let share = |cell: &Cell| cell.counters.lost as f64 / cell.counters.sent.max(1) as f64;
    let worst = context
        .cells
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let severity = if share(worst) >= LOSS_SHARE {
        Severity::Caution
    } else {
        Severity::Info
    };
    let text = format!(
        "Lost: {} of {} in {}, at most {} ({}). Percentiles are of what arrived.",
        text::count(lost),
        text::count(sent),
        text::plural(cells.len(), "cell"),
        text::quantity(share(worst), "1"),
        worst.id
    );
    (lost > 0).then(|| note(severity, "lost", text, cells))
}

pub(super) fn corrupted(context: &Context<'_>) -> Option<Note> {
    let (bad, _, cells) = counted(context, |c| c.corrupted.saturating_add(c.unmatched));
    let text = format!(
        "Arrived damaged, or belonged to nothing that was sent: {}.",
        text::count(bad)
    );
    (bad > 0).then(|| note(Severity::Caution, "corrupted", text, cells))
}

pub(super) fn duplicated(context: &Context<'_>) -> Option<Note> {
    let (again, _, cells) = counted(context, |counters| counters.duplicated);
    let text = format!(
        "Arrived more than once: {}. Only the first counts.",
        text::count(again)
    );
    (again > 0).then(|| note(Severity::Caution, "duplicated", text, cells))
}

pub(super) fn reordered(context: &Context<'_>) -> Option<Note> {
    let (late, _, cells) = counted(context, |counters| counters.reordered);
    let text = format!(
        "Arrived after one that was sent later: {}.",
        text::count(late)
    );
    (late > 0).then(|| note(Severity::Info, "reordered", text, cells))
}
