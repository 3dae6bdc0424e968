//! The values of one column of a paper's row, from the summary of a run: one a trial, or one a deployment.

use std::collections::BTreeMap;

use latlab_model::paper::{Quantity, Select};
use latlab_model::results::{Cell, Summary, TrialSummary};

use crate::stats::{Estimate, Resamples, Rng, median, standard_deviation};

/// Values of one quantity.
pub(super) struct Figure {
    pub unit: String,
    values: Vec<f64>,
    /// Their standard deviation is meant, not their median.
    is_spread: bool,
    /// A node ran under software emulation.
    pub emulated: bool,
}

impl Figure {
    pub fn value(&self) -> f64 {
        match self.is_spread {
            true => standard_deviation(&self.values),
            false => median(&self.values),
        }
    }

    /// The value with its uncertainty; `None` with too few trials.
    pub fn estimate(&self, seed: u64) -> Option<Estimate> {
        match self.is_spread {
            true => Estimate::of_spread(&self.values),
            false => {
                let resamples = Resamples::new(self.values.len(), &mut Rng::named(seed, "paper"));
                Estimate::of_values(&self.values, &resamples)
            }
        }
    }
}

/// The figure that a selection names, or the reason why there is none.
pub(super) fn find(select: &Select, summaries: &[&Summary]) -> Result<Figure, String> {
    let (Some(study), Some(quantity)) = (&select.study, &select.quantity) else {
        return Err("not measured here".into());
    };
    let summary = summaries.iter().find(|summary| summary.study == *study);
    let summary = summary.ok_or_else(|| format!("study `{study}` was not run"))?;
    let figure = match quantity {
        Quantity::Start(kind) => start(select, summary, kind),
        _ => of_cell(select, summary, quantity),
    };
    figure
        .filter(|figure| !figure.values.is_empty())
        .ok_or_else(|| "the run has no trial of it".into())
}

fn start(select: &Select, summary: &Summary, kind: &str) -> Option<Figure> {
    let starts = summary.starts.iter();
    let mut found = starts.filter(|start| start.kind == kind && fits(select, &start.levels));
    found.next().map(|start| Figure {
        unit: "ns".into(),
        values: start.all_ns.clone(),
        is_spread: false,
        emulated: kind == "vm" && summary.host.acceleration != "kvm",
    })
}

fn fits(select: &Select, levels: &BTreeMap<String, String>) -> bool {
    let mut wanted = select.levels.iter();
    wanted.all(|(factor, level)| levels.get(factor) == Some(level))
}

fn of_cell(select: &Select, summary: &Summary, quantity: &Quantity) -> Option<Figure> {
    let is_measured = |cell: &&Cell| {
        let measurement = select.measurement.as_ref();
        measurement.is_none_or(|name| cell.measurement == *name) && fits(select, &cell.levels)
    };
    let cell = summary.cells.iter().find(is_measured)?;
    let of_trials = |value: &dyn Fn(&TrialSummary) -> Vec<f64>| {
        let trials = summary.trials.iter();
        let good = trials.filter(|trial| trial.cell == cell.id && trial.failed.is_none());
        let values: Vec<f64> = good.flat_map(value).collect();
        ("ns".to_owned(), values)
    };
    let (quantity, is_spread) = match quantity {
        Quantity::Spread(of) => (&**of, true),
        other => (other, false),
    };
    let (unit, values) = match quantity {
        Quantity::Metric(name) => {
            let metric = cell.metrics.iter().find(|metric| metric.name == *name)?;
            (metric.unit.clone(), metric.values.clone())
        }
        Quantity::Latency => of_trials(&|trial| {
            let spread = trial.spread_ns.iter();
            spread.map(|spread| spread.median).collect()
        }),
        Quantity::Deviation => of_trials(&|trial| trial.tail_ns.iter().map(|t| t.sd).collect()),
        Quantity::P99 => of_trials(&|trial| trial.tail_ns.iter().filter_map(|t| t.p99).collect()),
        Quantity::P999 => of_trials(&|trial| trial.tail_ns.iter().filter_map(|t| t.p999).collect()),
        Quantity::Gap(act) => of_trials(&|trial| {
            let actions = trial.actions.iter().filter(|action| action.act == *act);
            let gaps = actions.filter_map(|action| action.gap_ns);
            gaps.map(|ns| ns as f64).collect()
        }),
        Quantity::Took(act) => of_trials(&|trial| {
            let actions = trial.actions.iter().filter(|action| action.act == *act);
            let took = actions.map(|action| action.done_ns - action.asked_ns);
            took.map(|ns| ns as f64).collect()
        }),
        Quantity::Start(_) | Quantity::Spread(_) => return None,
    };
    Some(Figure {
        unit,
        values,
        is_spread,
        emulated: cell.environment.emulated,
    })
}
