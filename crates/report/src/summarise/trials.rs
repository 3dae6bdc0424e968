//! Reads and condenses a trial: its record and its samples.

use std::collections::BTreeMap;
use std::error::Error;

use latlab_model::results::{
    CellPlan, Manifest, PlannedTrial, Trial, TrialOutcome, TrialSummary, TrialTail, samples_needed,
};
use latlab_samples::{RunDir, Sample, SampleReader, table};

use super::actions::note_gaps;
use crate::stats::{Pooled, log_spread, tidy};
use crate::steal::Stolen;

/// Points of a trial's time series at most.
const SERIES_POINTS: u64 = 120;

/// A sample this close to 2³² ns away from its neighbour looks like a 32-bit clock that wrapped.
const WRAP_NS: i64 = 1 << 32;
const WRAP_TOLERANCE_NS: i64 = 5_000_000;

#[derive(Debug, Clone, Default)]
pub(crate) struct TrialData {
    pub summary: TrialSummary,
    pub record: Option<Trial>,
    /// Sorted latencies of the samples that came back.
    pub sorted: Vec<i64>,
    pub aside: Option<Aside>,
    /// The trial was measured and its results are readable: it enters the statistics.
    pub used: bool,
    pub facts: SampleFacts,
    /// The record or the samples are missing or cannot be read.
    pub unreadable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Aside {
    pub sorted: Vec<i64>,
    /// Exchanges that lost time.
    pub exchanges: u64,
    pub stolen_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampleFacts {
    pub rows: u64,
    pub received: u64,
    pub negative: u64,
    /// Neighbours 2³² ns apart.
    pub wraps: u64,
    /// Hash of all latencies in order.
    pub fingerprint: u64,
}

impl TrialData {
    pub fn forget_samples(&mut self) {
        self.sorted = Vec::new();
        self.aside = None;
    }
}

/// Reads the trials of a cell that left a record, with their places in the order of running.
pub(super) fn of_cell(
    run: &RunDir,
    manifest: &Manifest,
    cell: &CellPlan,
) -> Vec<(usize, TrialData)> {
    let probe = manifest
        .measurements
        .iter()
        .find(|info| info.name == cell.measurement);
    let sampled = probe.is_none_or(|info| !["stream", "workload"].contains(&info.probe.as_str()));
    let planned = manifest
        .order
        .iter()
        .enumerate()
        .filter(|(_, planned)| planned.cell == cell.id);
    planned
        .filter_map(|(place, planned)| Some((place, read(run, planned, sampled)?)))
        .collect()
}

/// Spread of the floors beside the trials of a measurement between replicates of the same cell: the standard
/// deviation of their logarithm, pooled over the cells. The floor is the same exchange every time, so this is
/// the repeatability of the machine.
pub fn ruler_spread(run: &RunDir, manifest: &Manifest, measurement: &str) -> f64 {
    let floors = manifest.order.iter().filter_map(|planned| {
        let cell = manifest.cells.iter().find(|c| c.id == planned.cell);
        cell.filter(|cell| cell.measurement == measurement)?;
        // An unreadable trial is reported where its samples are needed.
        let record = run.read_trial(planned.trial).ok().flatten();
        let floor = record?.floor?;
        Some((planned.cell.as_str(), floor.median_ns))
    });
    log_spread(floors)
}

/// Reads one trial; `None` when it never ran.
fn read(run: &RunDir, planned: &PlannedTrial, sampled: bool) -> Option<TrialData> {
    match run.read_trial(planned.trial) {
        Ok(None) => None,
        Ok(Some(record)) if record.cell != planned.cell || record.trial != planned.trial => {
            let what = format!("the record is of trial {} of {}", record.trial, record.cell);
            Some(unreadable(planned, what))
        }
        Ok(Some(record)) => Some(with_record(run, planned, record, sampled)),
        Err(error) => Some(unreadable(planned, error.to_string())),
    }
}

fn unreadable(planned: &PlannedTrial, why: String) -> TrialData {
    TrialData {
        summary: TrialSummary {
            trial: planned.trial,
            cell: planned.cell.clone(),
            replicate: planned.replicate,
            failed: Some(why),
            ..TrialSummary::default()
        },
        unreadable: true,
        ..TrialData::default()
    }
}

fn with_record(run: &RunDir, planned: &PlannedTrial, record: Trial, sampled: bool) -> TrialData {
    let mut failed = match &record.outcome {
        TrialOutcome::Measured => None,
        TrialOutcome::Failed { reason } => Some(reason.clone()),
    };
    let mut samples = Samples::default();
    let mut is_unreadable = false;
    if sampled {
        match read_samples(run, &record) {
            Ok(read) => samples = read,
            // A failed trial may have no samples; its failure is reported.
            Err(why) if failed.is_none() => {
                failed = Some(why.to_string());
                is_unreadable = true;
            }
            Err(_) => {}
        }
    } else if record.stream.is_none() && record.workload.is_none() && failed.is_none() {
        failed = Some("the record has no result".to_owned());
        is_unreadable = true;
    }
    if let Some(stream) = &record.stream {
        samples.series = stream
            .intervals
            .iter()
            .map(|&(at, bits)| (at, bits, bits, bits))
            .collect();
    }
    let pooled = Pooled::new([samples.sorted.as_slice()]);
    let mut actions = record.actions.clone();
    note_gaps(&mut actions, &samples.arrivals);
    TrialData {
        summary: TrialSummary {
            trial: planned.trial,
            cell: planned.cell.clone(),
            replicate: planned.replicate,
            started: record.started.clone(),
            overloaded: record.checks.iter().any(|check| !check.passed),
            repeats: record.repeats,
            counters: record.counters,
            spread_ns: pooled.as_ref().map(Pooled::spread),
            tail_ns: pooled.as_ref().map(tail_of),
            series: samples.series,
            floor: record.floor,
            clock_error_ns: record.clock.map(|clock| clock.error_ns),
            by_node: by_node(&record),
            checks: record.checks.clone(),
            actions,
            silence_ns: samples.silence_ns,
            failed: failed.clone(),
        },
        record: Some(record),
        sorted: samples.sorted,
        aside: samples.aside,
        used: failed.is_none(),
        facts: samples.facts,
        unreadable: is_unreadable,
    }
}

/// The metric of a workload in each of its nodes.
fn by_node(record: &Trial) -> Vec<(String, f64)> {
    let nodes = record.workload.iter().flat_map(|workload| &workload.nodes);
    let values = nodes.filter_map(|node| Some((node.node.clone(), *node.values.first()?)));
    values.collect()
}

/// The number of nodes of the workloads, by cell.
pub(super) fn nodes(trials: &BTreeMap<usize, TrialData>) -> BTreeMap<String, u32> {
    let used = trials.values().filter(|trial| trial.used);
    let counted = used.filter_map(|trial| {
        let workload = trial.record.as_ref()?.workload.as_ref()?;
        Some((trial.summary.cell.clone(), workload.count()))
    });
    let counted = counted.filter(|(_, nodes)| *nodes > 0);
    counted.collect()
}

#[derive(Default)]
struct Samples {
    sorted: Vec<i64>,
    aside: Option<Aside>,
    series: Vec<(f64, f64, f64, f64)>,
    facts: SampleFacts,
    /// Times of arrival in order, where there were actions, and the longest time between two. The last one is that of the
    /// last packet's sending, if it was lost.
    arrivals: Vec<i64>,
    silence_ns: Option<u64>,
}

fn read_samples(run: &RunDir, record: &Trial) -> Result<Samples, Box<dyn Error>> {
    let named = record.samples.as_deref();
    let named = named.ok_or("the record names no samples")?;
    let mut reader = SampleReader::open(run.inside(record.trial, named)?)?;
    let mut condenser = Condenser::new(reader.rows(), read_stolen(run, record)?);
    // All of them are kept until the end, so only where they are needed.
    condenser.arrivals = (!record.actions.is_empty()).then(Vec::new);
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? {
        batch.iter().for_each(|sample| condenser.add(sample));
    }
    Ok(condenser.finish())
}

fn read_stolen(run: &RunDir, record: &Trial) -> Result<Option<Stolen>, Box<dyn Error>> {
    let Some(named) = record.stolen.as_deref() else {
        return Ok(None);
    };
    let stretches = table::read_stretches(run.inside(record.trial, named)?)?;
    Ok(Some(Stolen::new(&stretches)))
}

/// Takes samples one by one and keeps the latencies, a time series and a few facts.
///
/// Buckets of the time series hold equal numbers of rows rather than equal times. The number of rows is known
/// beforehand, so one bucket at a time is enough, and a pause of the measurement shows as a gap.
struct Condenser {
    samples: Samples,
    stolen: Option<Stolen>,
    rows_per_bucket: u64,
    bucket_start_ns: i64,
    bucket: Vec<i64>,
    last: Option<i64>,
    /// Times of arrival.
    arrivals: Option<Vec<i64>>,
    last_sent_ns: i64,
}

impl Condenser {
    fn new(rows: u64, stolen: Option<Stolen>) -> Self {
        Self {
            samples: Samples {
                aside: stolen.as_ref().map(|_| Aside::default()),
                facts: SampleFacts {
                    fingerprint: 0xcbf2_9ce4_8422_2325,
                    ..Default::default()
                },
                ..Default::default()
            },
            stolen,
            rows_per_bucket: rows.div_ceil(SERIES_POINTS).max(1),
            bucket_start_ns: 0,
            bucket: Vec::new(),
            last: None,
            arrivals: None,
            last_sent_ns: i64::MIN,
        }
    }

    fn add(&mut self, sample: &Sample) {
        if self.samples.facts.rows % self.rows_per_bucket == 0 {
            self.close_bucket();
            self.bucket_start_ns = sample.intended_ns;
        }
        self.samples.facts.rows += 1;
        self.last_sent_ns = self.last_sent_ns.max(sample.sent_ns);
        let Some(latency) = sample.latency_ns else {
            return;
        };
        let facts = &mut self.samples.facts;
        facts.received += 1;
        facts.negative += u64::from(latency < 0);
        facts.fingerprint = (facts.fingerprint ^ latency as u64).wrapping_mul(0x0100_0000_01b3);
        if let Some(last) = self.last.replace(latency) {
            let jump = last.abs_diff(latency).abs_diff(WRAP_NS as u64);
            facts.wraps += u64::from(jump < WRAP_TOLERANCE_NS as u64);
        }
        self.bucket.push(latency);
        if let (Some(arrivals), Some(received)) = (&mut self.arrivals, sample.received_ns) {
            arrivals.push(received);
        }
        self.samples.sorted.push(latency);
        if let (Some(stolen), Some(aside)) = (&self.stolen, &mut self.samples.aside) {
            let end = sample.sent_ns.saturating_add(latency);
            let lost = stolen.within(sample.sent_ns, end);
            aside.exchanges += u64::from(lost > 0);
            aside.stolen_ns += lost as u64;
            aside.sorted.push(latency - lost);
        }
    }

    fn close_bucket(&mut self) {
        self.bucket.sort_unstable();
        if let Some(pooled) = Pooled::new([self.bucket.as_slice()]) {
            let at = tidy(self.bucket_start_ns as f64 / 1e9);
            let (min, max) = (pooled.min() as f64, pooled.max() as f64);
            self.samples
                .series
                .push((at, min, pooled.quantile(0.5), max));
        }
        self.bucket.clear();
    }

    fn finish(mut self) -> Samples {
        self.close_bucket();
        self.samples.sorted.sort_unstable();
        if let Some(mut arrivals) = self.arrivals.take() {
            arrivals.sort_unstable();
            // Where nothing came any more, the silence lasted at least until the last packet was sent.
            if arrivals
                .last()
                .is_some_and(|last| *last < self.last_sent_ns)
            {
                arrivals.push(self.last_sent_ns);
            }
            self.samples.silence_ns = longest_gap(&arrivals);
            self.samples.arrivals = arrivals;
        }
        if let Some(aside) = &mut self.samples.aside {
            aside.sorted.sort_unstable();
        }
        self.samples
    }
}

/// The longest time between neighbours of an ordered list; none of fewer than two.
fn longest_gap(times: &[i64]) -> Option<u64> {
    times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).max()
}

/// The tail of a trial's samples, without percentiles that they cannot carry.
fn tail_of(pooled: &Pooled<'_>) -> TrialTail {
    let carried = |p: f64| (pooled.count() >= samples_needed(p)).then(|| pooled.quantile(p));
    TrialTail {
        sd: tidy(pooled.standard_deviation()),
        p99: carried(0.99),
        p999: carried(0.999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_of_neighbours_in_time() {
        assert_eq!(longest_gap(&[-1, 5, 10, 30]), Some(20));
        assert_eq!(longest_gap(&[5]), None);
    }

    fn condense(latencies: &[Option<i64>]) -> Samples {
        let mut condenser = Condenser::new(latencies.len() as u64, None);
        for (seq, &latency_ns) in latencies.iter().enumerate() {
            let intended_ns = seq as i64 * 1_000_000;
            condenser.add(&Sample {
                seq: seq as u64,
                intended_ns,
                latency_ns,
                ..Default::default()
            });
        }
        condenser.finish()
    }

    #[test]
    fn a_silence_at_the_end_lasts_until_the_last_packet_was_sent() {
        let silence_of = |received: [Option<i64>; 4]| {
            let mut condenser = Condenser::new(4, None);
            condenser.arrivals = Some(Vec::new());
            for (at, received_ns) in (0..).step_by(100).zip(received) {
                condenser.add(&Sample {
                    sent_ns: at,
                    received_ns,
                    latency_ns: received_ns.map(|received| received - at),
                    ..Default::default()
                });
            }
            condenser.finish().silence_ns
        };
        assert_eq!(silence_of([Some(5), None, None, None]), Some(295));
        assert_eq!(
            silence_of([Some(5), Some(107), Some(205), Some(303)]),
            Some(102)
        );
        assert_eq!(silence_of([None; 4]), None);
    }

    #[test]
    fn losses_are_gaps_not_zeros() {
        let samples = condense(&[Some(30), None, Some(10), None, Some(20)]);
        assert_eq!(samples.sorted, [10, 20, 30]);
        assert_eq!(samples.series.len(), 3);
        assert_eq!((samples.facts.rows, samples.facts.received), (5, 3));
    }

    #[test]
    fn stolen_time_is_set_aside_from_the_exchange_that_lost_it() {
        let stretch = table::Stretch {
            cpu: 0,
            since_ns: 1_000_010,
            until_ns: 1_000_090,
            stolen_ns: 70,
        };
        let mut condenser = Condenser::new(3, Some(Stolen::new(&[stretch])));
        for (seq, latency) in [(0, 20), (1, 100), (2, 25)] {
            condenser.add(&Sample {
                seq,
                sent_ns: seq as i64 * 1_000_000,
                latency_ns: Some(latency),
                ..Default::default()
            });
        }
        let samples = condenser.finish();
        assert_eq!(samples.sorted, [20, 25, 100]);
        let aside = samples.aside.unwrap();
        assert_eq!(aside.sorted, [20, 25, 30]);
        assert_eq!((aside.exchanges, aside.stolen_ns), (1, 70));
    }

    #[test]
    fn the_series_keeps_the_extremes_of_its_buckets() {
        let latencies: Vec<Option<i64>> = (0..1200).map(|i| Some(1000 + i % 10)).collect();
        let samples = condense(&latencies);
        assert_eq!(samples.series.len(), 120);
        assert_eq!(samples.series[1], (0.01, 1000.0, 1004.5, 1009.0));
    }

    #[test]
    fn a_wrapped_clock_and_negative_times_are_noticed() {
        let wrapped = condense(&[
            Some(100),
            Some(120),
            Some(120 - WRAP_NS),
            Some(90),
            Some(95),
        ]);
        assert_eq!((wrapped.facts.wraps, wrapped.facts.negative), (2, 1));
        // A real stall of another length is no wrap.
        let stalled = condense(&[Some(100), Some(3_000_000_000), Some(100)]);
        assert_eq!(stalled.facts.wraps, 0);
        let extremes = condense(&[Some(i64::MIN), Some(i64::MAX)]);
        assert_eq!(extremes.facts.wraps, 0);
    }

    #[test]
    fn equal_data_have_equal_fingerprints_and_order_matters() {
        let print = |latencies: &[i64]| {
            condense(&latencies.iter().map(|&x| Some(x)).collect::<Vec<_>>())
                .facts
                .fingerprint
        };
        assert_eq!(print(&[1, 2, 3]), print(&[1, 2, 3]));
        assert_ne!(print(&[1, 2, 3]), print(&[1, 3, 2]));
    }
}
