//! What a run leaves behind, as data: the manifest (what was meant, where, with which seeds), one
//! record a trial (what happened), and the summary (what follows from them).
//!
//! A run directory:
//!
//! ```text
//! RUN/manifest.json                 [`Manifest`]; says whether the run is complete
//! RUN/study.yaml                    the study as it was given
//! RUN/trials/0001/trial.json        [`Trial`]
//! RUN/trials/0001/samples.parquet   one row a transaction or packet, see [`SAMPLE_COLUMNS`]
//! RUN/trials/0001/stolen.parquet    time that the hypervisor took from the processors of the two ends
//! RUN/latency.hlog                  HdrHistogram log, one tagged histogram a trial
//! RUN/summary.json                  [`Summary`], computed from the files above and from nothing else
//! RUN/report.html                   the summary, drawn
//! ```

mod hwlat;
mod intruder;
mod manifest;
mod summary;
pub mod tail;
mod trial;

pub use hwlat::Hwlat;
pub use intruder::{Intruder, IntruderKind};
pub use manifest::{CellPlan, HostBrief, Manifest, PlannedTrial, RunState, Versions};
pub use summary::{
    Cell, Comparison, Environment, Factor, Group, Latency, MeasurementInfo, Metric, Note, Quantile,
    Severity, Spread, StealAside, Summary, TailRatio, Topology, TopologyEndpoint, TopologyLink,
    TopologyNode, TrialSummary, Verdict,
};
pub use tail::Tail;
pub use trial::{
    Check, ClockMap, Counters, Floor, Hop, NodeRecord, Ruler, StreamResult, Trace, Trial,
    TrialOutcome, WatchedCpu,
};

/// Columns of `samples.parquet`, in order, all `INT64`; the last three are null for a lost sample.
///
/// `seq` counts from 0. `intended_ns` and `sent_ns` are nanoseconds since the start of the
/// measurement on the sender's clock; `received_ns` is on the same scale (mapped through
/// [`ClockMap`] when the receiver has another clock). `latency_ns` is `received - sent` for
/// request/response and `received - intended` for an open-loop packet, so that a generator that
/// fell behind is seen (coordinated omission). `arrival` is the order of arrival, from 0.
pub const SAMPLE_COLUMNS: [&str; 6] = [
    "seq",
    "intended_ns",
    "sent_ns",
    "received_ns",
    "latency_ns",
    "arrival",
];

/// A percentile is reported only when at least this many samples lie beyond it.
pub const MIN_SAMPLES_BEYOND: u64 = 10;

/// The percentiles of every table, as fractions.
pub const QUANTILES: [f64; 7] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];

/// Samples needed before the quantile `p` may be reported, [`MIN_SAMPLES_BEYOND`] of them beyond it.
pub fn samples_needed(p: f64) -> u64 {
    // Rounded before the ceiling: 1 - 0.999 is not exactly 0.001 in binary.
    (MIN_SAMPLES_BEYOND as f64 / (1.0 - p) * (1.0 - 1e-9)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        assert_eq!(samples_needed(0.5), 20);
        assert_eq!(samples_needed(0.99), 1_000);
        assert_eq!(samples_needed(0.999), 10_000);
        assert_eq!(samples_needed(0.9999), 100_000);
    }
}
