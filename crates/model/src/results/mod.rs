//! The files of a run, as data: the manifest (what was meant, where, with which seeds), one
//! record a trial (what happened), and the summary (what follows from them).
//!
//! A run directory:
//!
//! ```text
//! RUN/manifest.json                 [`Manifest`]; says whether the run is complete
//! RUN/study.yaml                    the study as it was given
//! RUN/trials/0001/trial.json        [`Trial`]
//! RUN/trials/0001/samples.parquet   one row a transaction or packet, see [`SAMPLE_COLUMNS`]
//! RUN/trials/0001/stolen.parquet    time that the hypervisor took from the CPUs of the two ends
//! RUN/trials/0001/NODE.out, .err   what a workload's program in that node wrote
//! RUN/latency.hlog                  HdrHistogram log, one tagged histogram a trial
//! RUN/summary.json                  [`Summary`], computed from the files above and from nothing else
//! RUN/report.html                   the summary, drawn
//! RUN/annotation.json               [`Annotation`]: what people wrote on the run
//! ```

mod annotation;
mod effect;
mod hwlat;
mod intruder;
mod manifest;
mod paper;
mod samples;
mod setup;
mod summary;
pub mod tail;
mod trial;
mod verdict;
mod workload;

pub use annotation::Annotation;
pub use effect::{Change, Effect};
pub use hwlat::{Hwlat, SilentStalls};
pub use intruder::{Intruder, IntruderKind};
pub use manifest::{CellPlan, HostBrief, Manifest, Part, PlannedTrial, RunState, Versions};
pub use paper::{
    Direction, PaperAbsent, PaperComparison, PaperRow, PaperTable, PaperValue, PaperVerdict,
};
pub use samples::{MIN_SAMPLES_BEYOND, QUANTILES, SAMPLE_COLUMNS, samples_needed};
pub use setup::{
    Environment, Factor, MeasurementInfo, SweepPoint, Topology, TopologyEndpoint, TopologyLink,
    TopologyNode,
};
pub use summary::{
    Actions, Cell, Comparison, Group, Latency, Metric, Note, Quantile, Range, Scaling,
    SensorSummary, Severity, Slowdown, Spread, Starts, StealAside, Summary, TailRatio,
    TrialSummary, TrialTail,
};
pub use tail::Tail;
pub use trial::{
    ActionKind, ActionRecord, Check, ClockMap, Consumer, Copied, Counters, Floor, Held, Hop,
    NodeRecord, NodeStart, Ruler, SensorRecord, StreamResult, Trace, Trial, TrialOutcome,
    WatchedCpu,
};
pub use verdict::Verdict;
pub use workload::{Client, Figure, NodeMemory, NodeWorkload, WorkloadResult};
