//! The summary: all that the report shows, each number recomputable from the raw samples.
//!
//! Units are nanoseconds for latency throughout. A number that the samples cannot carry is absent,
//! never invented: see [`Quantile::value_ns`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::manifest::{HostBrief, RunState, Versions};
use super::paper::PaperComparison;
use super::setup::{Environment, Factor, MeasurementInfo, Topology};
use super::tail::Tail;
use super::trial::{ActionKind, ActionRecord, Check, Counters, Floor};
use super::verdict::Verdict;

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Always [`Summary::FORMAT`].
    pub format: String,
    pub id: String,
    pub study: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub state: RunState,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    pub seed: u64,
    /// Trials of each cell that were planned.
    pub replicates: u32,
    pub host: HostBrief,
    pub versions: Versions,
    pub factors: Vec<Factor>,
    pub measurements: Vec<MeasurementInfo>,
    /// Levels of the baseline; factors not named are held equal.
    pub baseline: BTreeMap<String, String>,
    /// Cells that share a baseline and therefore a plot.
    pub groups: Vec<Group>,
    pub cells: Vec<Cell>,
    /// Effects of the factors, where there are several; the main effects first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    pub trials: Vec<TrialSummary>,
    /// Why the slowest packets were slow, for measurements through taps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails: Vec<Tail>,
    pub topologies: Vec<Topology>,
    /// The start of containers and VMs, by lab and kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Starts>,
    /// Sensors of machines, read before and after each trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorSummary>,
    /// The published figures of the paper whose study this is, beside those of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<PaperComparison>,
    /// Actions on nodes within the windows, by cell, node and act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Actions>,
    /// The honesty box: what a reader must know before trusting a number.
    pub notes: Vec<Note>,
}

impl Summary {
    pub const FORMAT: &'static str = "latlab.summary/1";
}

/// A sensor of a machine over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensorSummary {
    /// The machine, as the file of hosts names it.
    pub host: String,
    pub name: String,
    /// As the controller names it.
    pub unit: String,
    /// In its unit; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readings: Option<Range>,
    /// Number of trials by state, but for `ok`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, usize>,
}

/// The start of the nodes of one kind, in all deployments of one lab. Times in ns until nodes were ready for commands,
/// their network included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Starts {
    /// Levels of the lab's factors.
    pub levels: BTreeMap<String, String>,
    /// `container` or `vm`.
    pub kind: String,
    /// Nodes of this kind in the lab. As many as the machine has CPUs start at the same time.
    pub nodes: usize,
    pub deployments: usize,
    /// One node, from its own begin.
    pub each: Range,
    /// All of them, from the begin of the first to the end of the last.
    pub all: Range,
    /// The same of each deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_ns: Vec<f64>,
}

/// All actions of one kind on one node in a cell. Times in ns, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Actions {
    pub cell: String,
    pub node: String,
    pub act: ActionKind,
    pub count: usize,
    /// The longest time without an arrival, from the order until a second after it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Range>,
    /// How long the node stood still, and how long by QEMU's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood: Option<Range>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Range>,
    /// From the order until all was done.
    pub took: Range,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Range>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<Range>,
    /// Moves of a node that wrote faster than it was copied.
    pub forced: usize,
}

/// The middle of some values and their ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub median: f64,
    pub smallest: f64,
    pub largest: f64,
}

/// Cells that differ only in the factors of the baseline: one overlaid plot, one block of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub id: String,
    pub measurement: String,
    /// Levels that all its cells share.
    pub levels: BTreeMap<String, String>,
    /// Title for people, for example `rr-udp · link bridge`.
    pub title: String,
    /// [`Cell::id`]s, the baseline first.
    pub cells: Vec<String>,
    /// The baseline's id, when it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

/// One combination of factor levels and measurement, with its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub id: String,
    pub measurement: String,
    pub levels: BTreeMap<String, String>,
    /// The levels in which it differs from others of its group, for example `vm`.
    pub label: String,
    pub group: String,
    pub environment: Environment,
    /// Index into [`Summary::topologies`].
    pub topology: usize,
    /// Trials that entered the statistics (measured, not failed).
    pub replicates: u32,
    /// Number of those that failed a check.
    pub overloaded: u32,
    /// Number of those that were repeated.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub repeated: u32,
    pub counters: Counters,
    /// Latency, for `rr` and `packets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// One number a trial: throughput, CPU time per byte, loss.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// The number of nodes of a workload, and what it costs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Against the baseline; absent for the baseline itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// A workload over the number of its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    pub nodes: u32,
    /// Against the cell with one node; absent for that one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
}

/// How many times as slow a node is as one alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// [`Cell::id`] of the cell with one node.
    pub alone: String,
    /// Above 1: slower, whichever way the metric is better.
    pub ratio: f64,
    /// 95 % interval over replicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_ci95: Option<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub samples: u64,
    pub min_ns: f64,
    pub max_ns: f64,
    /// First and third quartile.
    pub iqr_ns: (f64, f64),
    pub sd_ns: f64,
    /// The table's percentiles, in the order of [`super::QUANTILES`].
    pub quantiles: Vec<Quantile>,
    /// Percentile curve for the HDR axis: `(1 / (1 - p), ns)`, rising.
    pub curve: Vec<(f64, f64)>,
    /// The curve is carried by enough samples up to this `1 / (1 - p)`; beyond, it is drawn thin.
    pub curve_sound_to: f64,
    /// Cumulative distribution: `(ns, fraction)`, rising.
    pub cdf: Vec<(f64, f64)>,
    /// The same once the time is set aside that the hypervisor underneath took from the CPUs of
    /// the two ends; absent where it is not known for every trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_aside: Option<StealAside>,
}

/// Latency without stolen time. From each exchange is taken what was certainly stolen within it from
/// one of its CPUs, the one that lost most: never more than was stolen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StealAside {
    pub exchanges: u64,
    /// How much they lost together.
    pub stolen_ns: u64,
    /// Standard deviation of what remains.
    pub sd_ns: f64,
    /// Percentiles of what remains, in the order of [`super::QUANTILES`].
    pub quantiles: Vec<Quantile>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// As a fraction: 0.999 is the 99.9th percentile.
    pub p: f64,
    /// Absent when there are fewer than [`Quantile::needed`] samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_ns: Option<f64>,
    /// Bootstrap 95 % interval over replicates; absent with fewer than three of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95_ns: Option<(f64, f64)>,
    pub needed: u64,
}

/// A quantity with one value a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `throughput`, `cpu-per-byte-sender`, `loss`, …
    pub name: String,
    /// For people: `Throughput`.
    pub title: String,
    /// `bit/s`, `ns/byte`, `1`.
    pub unit: String,
    pub higher_is_better: bool,
    pub spread: Spread,
    /// Bootstrap 95 % interval of the median; absent with fewer than three trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// One value a trial, in the order of [`Summary::trials`].
    pub values: Vec<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub min: f64,
    pub p5: f64,
    pub q1: f64,
    pub median: f64,
    pub q3: f64,
    pub p95: f64,
    pub max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`Cell::id`] of the baseline.
    pub baseline: String,
    /// The compared quantity: `median latency`, or a metric's title.
    pub quantity: String,
    /// Cell over baseline.
    pub ratio: f64,
    /// Bootstrap 95 % interval of the ratio, over replicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_ci95: Option<(f64, f64)>,
    /// Two-sided Mann–Whitney U test on the replicates' values; absent with too few of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    pub verdict: Verdict,
    /// Ratios of what lies beyond the median, where both have enough samples.
    #[serde(default)]
    pub tails: Vec<TailRatio>,
    /// The same ratios once stolen time is set aside on both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails_steal_aside: Vec<TailRatio>,
}

/// How a percentile beyond the median, or the standard deviation, compares with the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TailRatio {
    /// `p99.9`, or `sd` for the standard deviation.
    pub of: String,
    pub ratio: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_ci95: Option<(f64, f64)>,
    /// The p value of the ratio's t test, adjusted after Holm for all tails of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Number, from 1, in the order of running.
    pub trial: u32,
    pub cell: String,
    /// From 1.
    pub replicate: u32,
    /// RFC 3339, UTC.
    pub started: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    pub overloaded: bool,
    /// Attempts before it that were discarded.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub repeats: u32,
    pub counters: Counters,
    /// Box of its samples, ns; absent for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_ns: Option<Spread>,
    /// Beyond the box; absent for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_ns: Option<TrialTail>,
    /// Time series: seconds since the start, then smallest, median and largest of the bucket, in ns
    /// (for a stream: bit/s three times).
    pub series: Vec<(f64, f64, f64, f64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// Bound of the error of one-way times between two clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<u64>,
    /// The metric of a workload in each of its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_node: Vec<(String, f64)>,
    pub checks: Vec<Check>,
    /// Things done to nodes within the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionRecord>,
    /// The longest time without an arrival, ns; where there were actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ns: Option<u64>,
}

/// The tail of one trial's samples, ns. A percentile that they cannot carry is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialTail {
    pub sd: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub severity: Severity,
    /// `emulated`, `overloaded`, `few-samples`, `failed`, `incomplete`, `lost`, `clock`, …
    pub code: String,
    /// One or two sentences for people.
    pub text: String,
    /// Cells concerned; empty when it concerns the whole run.
    pub cells: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Do not use these numbers for what they seem to say.
    Serious,
    /// Read the numbers with this in mind.
    Caution,
    Info,
}
