//! One cell: the statistics of its trials, and its comparison with the baseline.

use std::collections::BTreeMap;

use latlab_model::results::{
    Cell, CellPlan, Comparison, Counters, Group, Latency, Manifest, Metric, QUANTILES, Quantile,
    StealAside, StreamResult, TailRatio, samples_needed,
};

use super::groups;
use super::trials::{Aside, TrialData};
use super::workload::{self, Quantity, quantity};
use crate::counters::sum;
use crate::stats::{
    self, Claim, Estimate, Pooled, Resamples, Rng, cdf, holm, judge, percentile_curve, sound_to,
    tidy,
};
use crate::text::percentile;

#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// `median latency`, or a metric's title.
    pub quantity: String,
    /// `ns`, or a metric's unit.
    pub unit: String,
    pub higher_is_better: bool,
    /// Over all samples, or the median over trials.
    pub value: f64,
    /// One value a trial.
    pub values: Vec<f64>,
    /// With its uncertainty; `None` with fewer than three replicates.
    pub estimate: Option<Estimate>,
    /// The standard deviation of `values`, if there are enough.
    pub spread: Option<Estimate>,
    /// Percentiles beyond the median, if there are samples enough.
    pub tails: Vec<Tail>,
    /// The evidence with stolen time set aside, if known for every trial.
    pub tails_steal_aside: Vec<Tail>,
    /// Spread of the ruler between trials; see [`Estimate::on_ruler`].
    pub ruler_spread: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// `p99.9`, or `sd`.
    pub of: String,
    pub value: f64,
    /// With its uncertainty; `None` with fewer than three replicates.
    pub estimate: Option<Estimate>,
}

pub(super) fn summarise(
    manifest: &Manifest,
    plan: &CellPlan,
    trials: &[(usize, TrialData)],
    groups: &[Group],
    ruler_spread: f64,
) -> (Cell, Option<Evidence>) {
    let used: Vec<&TrialData> = trials
        .iter()
        .map(|(_, trial)| trial)
        .filter(|trial| trial.used)
        .collect();
    let mut rng = Rng::named(manifest.seed, &plan.id);
    let pooled = Pooled::new(used.iter().map(|trial| trial.sorted.as_slice()));
    let timed = pooled.map(|pooled| latency(&used, &pooled, ruler_spread, &mut rng));
    let metrics: Vec<(Metric, Evidence)> = series(&used)
        .into_iter()
        .filter_map(|series| metric(series, &mut rng))
        .collect();
    let evidence = match &timed {
        Some((_, evidence)) => Some(evidence.clone()),
        None => metrics
            .first()
            .filter(|(m, _)| ["throughput", workload::PER_NODE].contains(&m.name.as_str()))
            .map(|(_, e)| e.clone()),
    };
    // A baseline of other groups is listed where it is compared itself.
    let mine = groups.iter().filter(|group| group.cells.contains(&plan.id));
    let compared = |group: &&&Group| group.baseline.as_ref() != Some(&plan.id);
    let group = mine.clone().find(|g| compared(&g)).or(mine.clone().next());
    let cell = Cell {
        id: plan.id.clone(),
        measurement: plan.measurement.clone(),
        levels: plan.levels.clone(),
        label: groups::label(manifest, plan),
        group: group.map(|group| group.id.clone()).unwrap_or_default(),
        environment: plan.environment.clone(),
        topology: plan.topology,
        replicates: used.len() as u32,
        overloaded: used.iter().filter(|trial| trial.summary.overloaded).count() as u32,
        repeated: used
            .iter()
            .filter(|trial| trial.summary.repeats > 0)
            .count() as u32,
        counters: sum(used.iter().map(|trial| trial.summary.counters)),
        latency: timed.map(|(latency, _)| latency),
        metrics: metrics.into_iter().map(|(metric, _)| metric).collect(),
        scaling: None,
        comparison: None,
    };
    (cell, evidence)
}

fn latency(
    used: &[&TrialData],
    pooled: &Pooled<'_>,
    ruler_spread: f64,
    rng: &mut Rng,
) -> (Latency, Evidence) {
    let resamples = Resamples::new(pooled.parts().len(), rng);
    let samples = pooled.count();
    let (quantiles, tails) = beyond_the_median(pooled, &resamples, ruler_spread);
    let (steal_aside, tails_steal_aside) = match aside(used, pooled, &resamples, ruler_spread) {
        Some((aside, tails)) => (Some(aside), tails),
        None => (None, Vec::new()),
    };
    let medians = pooled
        .parts()
        .iter()
        .map(|&part| Pooled::new([part]).map_or(f64::NAN, |trial| trial.quantile(0.5)));
    let medians: Vec<f64> = medians.collect();
    let evidence = Evidence {
        quantity: "median latency".to_owned(),
        unit: "ns".to_owned(),
        higher_is_better: false,
        value: pooled.quantile(0.5),
        spread: Estimate::of_spread(&medians),
        values: medians,
        estimate: Estimate::of_quantile(pooled, 0.5, &resamples),
        tails,
        tails_steal_aside,
        ruler_spread,
    };
    let tidied = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (tidy(x), tidy(y)));
    let latency = Latency {
        samples,
        min_ns: pooled.min() as f64,
        max_ns: pooled.max() as f64,
        iqr_ns: (pooled.quantile(0.25), pooled.quantile(0.75)),
        sd_ns: pooled.standard_deviation(),
        quantiles,
        curve: tidied(percentile_curve(pooled)).collect(),
        curve_sound_to: sound_to(samples),
        cdf: tidied(cdf(pooled)).collect(),
        steal_aside,
    };
    (latency, evidence)
}

/// The cell without stolen time, if known for all trials.
fn aside(
    used: &[&TrialData],
    whole: &Pooled<'_>,
    resamples: &Resamples,
    ruler_spread: f64,
) -> Option<(StealAside, Vec<Tail>)> {
    let with_samples = used.iter().filter(|trial| !trial.sorted.is_empty());
    let known: Vec<&Aside> = with_samples
        .map(|trial| trial.aside.as_ref())
        .collect::<Option<_>>()?;
    let pooled = Pooled::new(known.iter().map(|aside| aside.sorted.as_slice()))?;
    if pooled.parts().len() != whole.parts().len() {
        return None;
    }
    let (quantiles, tails) = beyond_the_median(&pooled, resamples, ruler_spread);
    let sum = |of: fn(&Aside) -> u64| {
        let all = known.iter().map(|aside| of(aside));
        all.fold(0, u64::saturating_add)
    };
    let aside = StealAside {
        exchanges: sum(|aside| aside.exchanges),
        stolen_ns: sum(|aside| aside.stolen_ns),
        sd_ns: pooled.standard_deviation(),
        quantiles,
    };
    Some((aside, tails))
}

/// The table's percentiles, and the evidence beyond the median.
fn beyond_the_median(
    pooled: &Pooled<'_>,
    resamples: &Resamples,
    ruler_spread: f64,
) -> (Vec<Quantile>, Vec<Tail>) {
    let mut tails = Vec::new();
    let quantiles = QUANTILES.map(|p| {
        let needed = samples_needed(p);
        let enough = pooled.count() >= needed;
        let estimate = if enough {
            Estimate::of_quantile(pooled, p, resamples)
        } else {
            None
        };
        if enough && p > 0.5 {
            tails.push(Tail {
                of: percentile(p),
                value: pooled.quantile(p),
                estimate,
            });
        }
        Quantile {
            p,
            value_ns: enough.then(|| pooled.quantile(p)),
            ci95_ns: estimate.map(|estimate| estimate.on_ruler(ruler_spread).ci95()),
            needed,
        }
    });
    tails.push(Tail {
        of: "sd".to_owned(),
        value: pooled.standard_deviation(),
        estimate: Estimate::of_deviation(pooled, resamples),
    });
    (quantiles.to_vec(), tails)
}

/// A metric before its statistics.
struct Series {
    name: String,
    title: String,
    unit: String,
    higher_is_better: bool,
    values: Vec<f64>,
}

/// The quantities with one value a trial, throughput first.
fn series(used: &[&TrialData]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for one in used.iter().flat_map(|trial| quantities(trial)) {
        match all.iter_mut().find(|series| series.name == one.name) {
            Some(series) => series.values.push(one.value),
            None => all.push(Series {
                name: one.name,
                title: one.title,
                unit: one.unit,
                higher_is_better: one.higher_is_better,
                values: vec![one.value],
            }),
        }
    }
    all.retain(|series| series.values.iter().all(|value| value.is_finite()));
    all
}

/// The quantities of one trial.
fn quantities(trial: &TrialData) -> Vec<Quantity> {
    let record = trial.record.as_ref();
    if let Some(stream) = record.and_then(|record| record.stream.as_ref()) {
        return of_stream(stream);
    }
    if let Some(found) = record.and_then(|record| record.workload.as_ref()) {
        return workload::quantities(found);
    }
    let Counters { sent, lost, .. } = trial.summary.counters;
    let share = (sent > 0).then(|| lost as f64 / sent as f64);
    quantity("loss", "Loss", ("1", false), share)
        .into_iter()
        .collect()
}

fn of_stream(stream: &StreamResult) -> Vec<Quantity> {
    let (bits, cost) = (("bit/s", true), ("ns/byte", false));
    let throughput = Some(stream.bits_per_second);
    let mut all = vec![quantity("throughput", "Throughput", bits, throughput)];
    for (end, &ns) in &stream.cpu_ns_per_byte {
        let name = format!("cpu-per-byte-{end}");
        let title = format!("CPU per byte, {end}");
        all.push(quantity(&name, &title, cost, Some(ns)));
    }
    let again = stream.retransmits.map(|number| number as f64);
    let (count, share) = (("count", false), ("1", false));
    all.push(quantity("retransmits", "Retransmits", count, again));
    all.push(quantity("loss", "Loss", share, stream.lost_fraction));
    all.into_iter().flatten().collect()
}

fn metric(series: Series, rng: &mut Rng) -> Option<(Metric, Evidence)> {
    let spread = stats::spread(&series.values)?;
    let resamples = Resamples::new(series.values.len(), rng);
    let estimate = Estimate::of_values(&series.values, &resamples);
    let metric = Metric {
        name: series.name,
        title: series.title.clone(),
        unit: series.unit.clone(),
        higher_is_better: series.higher_is_better,
        spread,
        ci95: estimate.map(|estimate| estimate.ci95()),
        values: series.values.clone(),
    };
    let evidence = Evidence {
        quantity: series.title,
        unit: series.unit,
        higher_is_better: series.higher_is_better,
        value: spread.median,
        spread: Estimate::of_spread(&series.values),
        values: series.values,
        estimate,
        tails: Vec::new(),
        tails_steal_aside: Vec::new(),
        ruler_spread: 0.0,
    };
    Some((metric, evidence))
}

pub(super) fn compare(groups: &[Group], cells: &mut [Cell], evidence: &BTreeMap<String, Evidence>) {
    for group in groups {
        let Some(baseline) = &group.baseline else {
            continue;
        };
        let Some(base) = evidence.get(baseline) else {
            continue;
        };
        let others = group.cells.iter().filter(|id| *id != baseline);
        let mut pairs: Vec<(&String, Pair)> = others
            .filter_map(|id| Some((id, Pair::new(evidence.get(id)?, base)?)))
            .collect();
        adjust(pairs.iter_mut().flat_map(|(_, pair)| &mut pair.tails));
        adjust(
            pairs
                .iter_mut()
                .flat_map(|(_, pair)| &mut pair.tails_steal_aside),
        );
        let claims: Vec<Claim> = pairs.iter().map(|(_, pair)| pair.claim).collect();
        for ((id, pair), verdict) in pairs.into_iter().zip(judge(&claims)) {
            let Some(cell) = cells.iter_mut().find(|cell| cell.id == *id) else {
                continue;
            };
            cell.comparison = Some(Comparison {
                baseline: baseline.clone(),
                quantity: base.quantity.clone(),
                ratio: pair.ratio,
                ratio_ci95: pair.ci95,
                p_value: pair.claim.rank.filter(|_| pair.ci95.is_some()).map(tidy),
                verdict,
                tails: pair.tails,
                tails_steal_aside: pair.tails_steal_aside,
            });
        }
    }
}

/// Among many tails some differ by chance.
pub(crate) fn adjust<'t>(tails: impl Iterator<Item = &'t mut TailRatio>) {
    let mut tested: Vec<&mut f64> = tails.filter_map(|tail| tail.p_value.as_mut()).collect();
    let raw: Vec<f64> = tested.iter().map(|p| **p).collect();
    for (p, adjusted) in tested.iter_mut().zip(holm(&raw)) {
        **p = tidy(adjusted);
    }
}

pub(crate) struct Pair {
    pub ratio: f64,
    pub ci95: Option<(f64, f64)>,
    pub claim: Claim,
    pub tails: Vec<TailRatio>,
    /// Without stolen time on both sides.
    pub tails_steal_aside: Vec<TailRatio>,
}

impl Pair {
    /// Ratio within a run; `None` if the quantities differ or a ratio has no meaning.
    pub fn new(cell: &Evidence, base: &Evidence) -> Option<Self> {
        Self::of(cell, base, &|_, estimate| estimate)
    }

    /// Ratio of two runs, whose rulers differ.
    pub fn between_runs(cell: &Evidence, base: &Evidence) -> Option<Self> {
        Self::of(cell, base, &|evidence, estimate| {
            estimate.on_ruler(evidence.ruler_spread)
        })
    }

    fn of(
        cell: &Evidence,
        base: &Evidence,
        ruled: &dyn Fn(&Evidence, Estimate) -> Estimate,
    ) -> Option<Self> {
        let meaningful = cell.quantity == base.quantity && cell.value > 0.0 && base.value > 0.0;
        if !meaningful {
            return None;
        }
        let tested = |own: Option<Estimate>, other: Option<Estimate>| {
            stats::ratio(&ruled(cell, own?), &ruled(base, other?))
        };
        let ratios = |own: &[Tail], others: &[Tail]| -> Vec<TailRatio> {
            let pairs = own.iter().filter_map(|own| {
                let other = others.iter().find(|other| other.of == own.of)?;
                let tested = tested(own.estimate, other.estimate);
                (own.value > 0.0 && other.value > 0.0).then(|| TailRatio {
                    of: own.of.clone(),
                    ratio: tidy(own.value / other.value),
                    ratio_ci95: tested.map(|tested| tested.ci95),
                    p_value: tested.map(|tested| tested.p_value),
                })
            });
            pairs.collect()
        };
        let tails = ratios(&cell.tails, &base.tails);
        let tails_steal_aside = ratios(&cell.tails_steal_aside, &base.tails_steal_aside);
        let tested = tested(cell.estimate, base.estimate);
        let ratio = tested.map_or_else(|| tidy(cell.value / base.value), |tested| tested.value);
        let higher = cell.higher_is_better;
        let claim = Claim::new(&cell.values, &base.values, ratio, higher, tested);
        Some(Self {
            ratio,
            ci95: tested.map(|tested| tested.ci95),
            claim,
            tails,
            tails_steal_aside,
        })
    }
}
