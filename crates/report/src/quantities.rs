//! The quantities that a summary carries, with the evidence for comparing many runs at once.
//!
//! [`compare()`](crate::compare::compare) reads the raw samples of two runs. For twenty runs, or a trend over thousands, the
//! values of the replicates suffice, and a summary has them.

use std::collections::BTreeMap;

use latlab_model::results::{Cell, Latency, Summary, TrialSummary, Verdict};
use serde::{Deserialize, Serialize};

use crate::stats::{
    Claim, Estimate, MIN_REPLICATES, Ratio, Resamples, Rng, judge, log_spread, ratio, tidy,
};

/// A quantity of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// `median latency`, `p99 latency`, `p99.9 latency`, or a metric's title.
    pub quantity: String,
    /// `ns`, or the metric's unit.
    pub unit: String,
    pub higher_is_better: bool,
    /// Over all samples, or the median over trials.
    pub value: f64,
    /// 95 % interval over replicates.
    pub ci95: Option<(f64, f64)>,
    /// Trials that it was computed from.
    pub trials: usize,
    /// One value a trial; less where a trial alone has too few samples for it.
    pub replicates: Vec<f64>,
    /// Spread of the ruler between trials; see [`Estimate::on_ruler`].
    pub ruler_spread: f64,
}

/// A quantity of one run against the same of a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Against {
    /// Ratio of the replicates' medians.
    pub ratio: f64,
    pub ratio_ci95: Option<(f64, f64)>,
    /// `None` where there are trials enough, but without values of their own.
    pub verdict: Option<Verdict>,
}

/// Latencies by percentile, and where a trial has its own.
type OfTrial = fn(&TrialSummary) -> Option<f64>;
const LATENCIES: [(f64, &str, OfTrial); 3] = [
    (0.5, "median latency", |trial| Some(trial.spread_ns?.median)),
    (0.99, "p99 latency", |trial| trial.tail_ns?.p99),
    (0.999, "p99.9 latency", |trial| trial.tail_ns?.p999),
];

/// The quantities of each cell that has results, in the summary's order of cells.
pub fn of_summary(summary: &Summary) -> Vec<(&Cell, Vec<Quantity>)> {
    let rulers = ruler_spreads(summary);
    let cells = summary.cells.iter().map(|cell| {
        let ruler = rulers.get(cell.measurement.as_str()).copied();
        (cell, of_cell(summary, cell, ruler.unwrap_or(0.0)))
    });
    cells.filter(|(_, found)| !found.is_empty()).collect()
}

fn of_cell(summary: &Summary, cell: &Cell, ruler_spread: f64) -> Vec<Quantity> {
    let trials = summary.trials.iter();
    let trials = trials.filter(|trial| trial.cell == cell.id && trial.failed.is_none());
    let trials: Vec<&TrialSummary> = trials.collect();
    let latencies = cell.latency.iter().flat_map(|latency| {
        let found = LATENCIES.iter();
        found.filter_map(|of| latency_of(latency, &trials, of, ruler_spread))
    });
    let metrics = cell.metrics.iter().map(|metric| Quantity {
        quantity: metric.title.clone(),
        unit: metric.unit.clone(),
        higher_is_better: metric.higher_is_better,
        value: metric.spread.median,
        ci95: metric.ci95,
        trials: metric.values.len(),
        replicates: metric.values.clone(),
        ruler_spread: 0.0,
    });
    latencies.chain(metrics).collect()
}

fn latency_of(
    latency: &Latency,
    trials: &[&TrialSummary],
    (p, name, of_trial): &(f64, &str, OfTrial),
    ruler_spread: f64,
) -> Option<Quantity> {
    let found = latency.quantiles.iter().find(|quantile| quantile.p == *p)?;
    Some(Quantity {
        quantity: (*name).to_owned(),
        unit: "ns".to_owned(),
        higher_is_better: false,
        value: found.value_ns?,
        ci95: found.ci95_ns,
        trials: trials.len(),
        replicates: trials.iter().filter_map(|trial| of_trial(trial)).collect(),
        ruler_spread,
    })
}

/// Spread of the floor between trials of a cell, by measurement.
fn ruler_spreads(summary: &Summary) -> BTreeMap<&str, f64> {
    let measurement_of = |trial: &TrialSummary| {
        let cell = summary.cells.iter().find(|cell| cell.id == trial.cell)?;
        Some(cell.measurement.as_str())
    };
    let mut floors: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for trial in &summary.trials {
        if let (Some(measurement), Some(floor)) = (measurement_of(trial), trial.floor) {
            let of_cell = (trial.cell.as_str(), floor.median_ns);
            floors.entry(measurement).or_default().push(of_cell);
        }
    }
    let spread = |(measurement, floors)| (measurement, log_spread(floors));
    floors.into_iter().map(spread).collect()
}

/// Compares quantities with the same of a baseline. Verdicts are corrected for the number of pairs, so a call has the
/// pairs of one quantity of one run. `None` where a ratio has no meaning.
pub fn against(pairs: &[(&Quantity, &Quantity)]) -> Vec<Option<Against>> {
    let compared: Vec<Option<Compared>> = pairs.iter().map(compared).collect();
    let claims: Vec<Claim> = compared.iter().flatten().filter_map(|c| c.claim).collect();
    let mut verdicts = judge(&claims).into_iter();
    let result = |found: Option<Compared>| {
        let found = found?;
        Some(Against {
            ratio: found.value,
            ratio_ci95: found.tested.map(|tested| tested.ci95),
            verdict: found.claim.and_then(|_| verdicts.next()),
        })
    };
    compared.into_iter().map(result).collect()
}

struct Compared {
    value: f64,
    tested: Option<Ratio>,
    /// `None` where nothing can be claimed, however many trials there are.
    claim: Option<Claim>,
}

/// Whether a difference cannot be tested for lack of values, though not for lack of trials.
fn lacks_values(of: &Quantity) -> bool {
    of.replicates.len() < MIN_REPLICATES && of.replicates.len() < of.trials
}

fn compared((new, base): &(&Quantity, &Quantity)) -> Option<Compared> {
    if new.value <= 0.0 || base.value <= 0.0 || new.unit != base.unit {
        return None;
    }
    let estimate = |of: &Quantity| {
        // A fixed seed: the same runs compare alike every time.
        let mut rng = Rng::named(0, &of.quantity);
        let resamples = Resamples::new(of.replicates.len(), &mut rng);
        Some(Estimate::of_values(&of.replicates, &resamples)?.on_ruler(of.ruler_spread))
    };
    let both = estimate(new).zip(estimate(base));
    let tested = both.and_then(|(new, base)| ratio(&new, &base));
    let value = tested.map_or_else(|| tidy(new.value / base.value), |tested| tested.value);
    let (own, others) = (&new.replicates, &base.replicates);
    let claim = || Claim::new(own, others, value, new.higher_is_better, tested);
    Some(Compared {
        value,
        tested,
        claim: (!lacks_values(new) && !lacks_values(base)).then(claim),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn named<'q>(found: &'q [(&Cell, Vec<Quantity>)], quantity: &str) -> &'q Quantity {
        let mut all = found[0].1.iter();
        all.find(|of| of.quantity == quantity).unwrap()
    }

    #[test]
    fn trials_without_a_percentile_of_their_own_are_counted_and_give_no_verdict() {
        let mut summary = synthetic::summary();
        // As of trials with less samples than a p99 needs, all of which have one together.
        for trial in &mut summary.trials {
            trial.tail_ns = None;
        }
        let found = of_summary(&summary);
        let (median, p99) = (
            named(&found, "median latency"),
            named(&found, "p99 latency"),
        );
        assert_eq!((median.trials, median.replicates.len()), (4, 4));
        assert_eq!((p99.trials, p99.replicates.len()), (4, 0));
        let slower = |of: &Quantity| Quantity {
            value: of.value * 1.5,
            replicates: of.replicates.iter().map(|value| value * 1.5).collect(),
            ..of.clone()
        };
        let (other_median, other_p99) = (slower(median), slower(p99));
        let compared = against(&[(&other_p99, p99), (&other_median, median)]);
        let verdicts = compared.iter().map(|found| found.unwrap().verdict);
        assert_eq!(verdicts.collect::<Vec<_>>(), [None, Some(Verdict::Worse)]);
        assert_eq!(compared[0].unwrap().ratio, 1.5);
    }

    #[test]
    fn of_few_trials_it_is_said_that_they_are_few() {
        let summary = synthetic::summary();
        let found = of_summary(&summary);
        let median = named(&found, "median latency");
        let few = Quantity {
            trials: 2,
            replicates: median.replicates[..2].to_vec(),
            ..median.clone()
        };
        let compared = against(&[(&few, median)]);
        let verdict = compared[0].unwrap().verdict;
        assert_eq!(verdict, Some(Verdict::TooFewReplicates));
    }
}
