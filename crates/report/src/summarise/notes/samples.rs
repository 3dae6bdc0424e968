//! Notes on too few samples.

use latlab_model::results::{Cell, Note, QUANTILES, Severity, samples_needed};

use super::context::{Context, note};
use crate::text;

/// The table's last column: few samples beyond it are not noted.
const LAST_TABLE_QUANTILE: f64 = 0.9999;

pub(super) fn few_replicates(context: &Context<'_>) -> Option<Note> {
    let cells = context.cells_where(|cell| cell.replicates > 0 && cell.replicates < 3);
    let text =
        "Fewer than three usable replicates: no interval and no verdict, because one or two \
                trials do not show how much trials differ."
            .to_owned();
    (!cells.is_empty()).then(|| note(Severity::Caution, "few-replicates", text, cells))
}

pub(super) fn few_samples(context: &Context<'_>) -> Option<Note> {
    let lacks = |cell: &Cell, p: f64| {
        cell.latency
            .as_ref()
            .is_some_and(|latency| latency.samples < samples_needed(p))
    };
    let table = QUANTILES
        .iter()
        .copied()
        .filter(|&p| p <= LAST_TABLE_QUANTILE);
    let lacking: Vec<(f64, usize)> = table
        .map(|p| {
            (
                p,
                context.cells.iter().filter(|cell| lacks(cell, p)).count(),
            )
        })
        .filter(|&(_, cells)| cells > 0)
        .collect();
    let first = lacking.first()?.0;
    let list: Vec<String> = lacking
        .iter()
        .map(|&(p, cells)| {
            let needed = text::count(samples_needed(p));
            format!(
                "{} (needs {needed}) in {}",
                text::percentile(p),
                text::plural(cells, "cell")
            )
        })
        .collect();
    let text = format!("Left out for want of samples: {}.", list.join(", "));
    Some(note(
        Severity::Info,
        "few-samples",
        text,
        context.cells_where(|cell| lacks(cell, first)),
    ))
}
