//! One trial: a measurement made once, in one deployed lab. `trial.json` keeps what the samples
//! cannot say: what was lost, how the machine was doing, what the ruler itself measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hwlat::{Hwlat, SilentStalls};
use super::intruder::Intruder;
use super::workload::WorkloadResult;
use crate::words::vocabulary;

/// `trial.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the trial, from 1.
    pub trial: u32,
    pub cell: String,
    /// From 1.
    pub replicate: u32,
    /// RFC 3339, UTC.
    pub started: String,
    pub outcome: TrialOutcome,
    /// Attempts before this one that were discarded, because others took the CPUs meanwhile.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub repeats: u32,
    /// This is such an attempt; no statistics use it.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub discarded: bool,
    #[serde(default)]
    pub counters: Counters,
    /// The floor under these numbers, measured just before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// How the receiver's clock was mapped to the sender's; absent when they share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockMap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadResult>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intruders: Vec<Intruder>,
    #[serde(default)]
    pub nodes: Vec<NodeRecord>,
    /// `samples.parquet`, relative to the run directory, when there are samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<String>,
    /// The table of time that the hypervisor took from the CPUs of the two ends, relative to the
    /// run directory; absent where no hypervisor tells, or where the ends may run anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<String>,
    /// The records of taps and the flight recorder, for a measurement through a device under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Things done to nodes within the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionRecord>,
    /// The start of the lab's containers and VMs; with the first trial of each deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<NodeStart>,
    /// Sensors of machines, read by their controllers before and after the trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorRecord>,
}

/// A sensor beside a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensorRecord {
    /// The machine, as the file of hosts names it.
    pub host: String,
    pub name: String,
    /// As the controller names it.
    pub unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// As the controller names it; `ok` where nothing is wrong. The worse of both.
    pub state: String,
}

/// The time that a container or a VM took until it was ready for commands, its network included. Times are from the
/// start of the lab's first node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    pub node: String,
    /// `container` or `vm`.
    pub kind: String,
    pub began_ns: u64,
    pub ready_ns: u64,
    /// The kernel that a VM booted: its release, and where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// An action on a node, as it was. Moments are ns on the time axis of the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRecord {
    pub node: String,
    pub act: ActionKind,
    /// The node to whose hosts it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When the order was given, and when all of it was done.
    pub asked_ns: i64,
    pub done_ns: i64,
    /// When the node stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ns: Option<i64>,
    /// When the order to go on was given to a paused node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_ns: Option<i64>,
    /// When it went on, its network included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_ns: Option<i64>,
    /// How long it stood still by QEMU's own account, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Copied>,
    /// The longest time without an arrival, from the order until a second after it was done; of a summary, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ns: Option<u64>,
}

/// A node that stood still, in ns of the host's monotonic clock, which is that of the taps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub node: String,
    pub act: ActionKind,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The amount that a move copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    pub bytes: u64,
    /// Passes over the memory.
    pub passes: u64,
    /// The node wrote faster than it was copied, and was stopped for the rest.
    pub was_forced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    Pause,
    Migrate,
    Snapshot,
    Restore,
}
vocabulary!(ActionKind, {
    "pause" => Pause, "migrate" => Migrate, "snapshot" => Snapshot, "restore" => Restore,
});

impl ActionRecord {
    /// How long the node stood still, if that is known.
    pub fn stood_ns(&self) -> Option<u64> {
        let until = self.resumed_ns.or(self.running_ns)?;
        Some(until.abs_diff(self.stopped_ns?))
    }
}

impl Trial {
    /// A measured trial of which nothing else is known yet.
    pub fn new(trial: u32, cell: &str, replicate: u32, started: &str) -> Trial {
        Trial {
            trial,
            cell: cell.to_owned(),
            replicate,
            started: started.to_owned(),
            ..Trial::default()
        }
    }

    /// True when it was measured and every check passed.
    pub fn is_valid(&self) -> bool {
        self.outcome == TrialOutcome::Measured && self.checks.iter().all(|c| c.passed)
    }

    /// The names of its files, relative to the run directory.
    pub fn files(&mut self) -> impl Iterator<Item = &mut String> {
        let trace = self.trace.iter_mut();
        let trace = trace.flat_map(|trace| {
            let optional = trace.events.iter_mut().chain(&mut trace.stacks);
            optional.chain([&mut trace.passages])
        });
        let nodes = self.workload.iter_mut().flat_map(|w| &mut w.nodes);
        let outputs = nodes.flat_map(|node| [&mut node.output, &mut node.errors]);
        let tables = self.samples.iter_mut().chain(&mut self.stolen);
        tables.chain(trace).chain(outputs)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum TrialOutcome {
    #[default]
    Measured,
    /// The trial stopped early; there may be samples up to that moment.
    Failed { reason: String },
}

/// Packets or transactions of a trial. Nothing is dropped silently: the sum is accounted for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Sent within the measured window.
    pub sent: u64,
    /// Received once, matched to a sent one.
    pub received: u64,
    /// Never answered or never arrived.
    pub lost: u64,
    pub duplicated: u64,
    /// Arrived after one with a higher sequence number.
    pub reordered: u64,
    /// Arrived but belonged to nothing that was sent.
    pub unmatched: u64,
    /// Arrived with a damaged header.
    pub corrupted: u64,
}

/// The cost and readings of the ruler itself, measured beside the trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The same probe over the sender's own loopback.
    pub median_ns: f64,
    pub p99_ns: f64,
    pub samples: u64,
    /// Median cost of one clock read on the sender.
    pub clock_read_ns: f64,
    /// Smallest step of that clock that was seen.
    pub clock_resolution_ns: f64,
}

/// Mapping of a receiver's clock to the sender's: `sender = receiver + offset`, linear in time
/// between two exchanges, one before and one after the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockMap {
    pub offset_before_ns: i64,
    pub offset_after_ns: i64,
    /// Sender's time of the first exchange, relative to the measurement's start.
    pub before_at_ns: i64,
    pub after_at_ns: i64,
    /// Bound of the error: half the best round trip of the worse exchange.
    pub error_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Received, payload bits per second.
    pub bits_per_second: f64,
    pub bytes: u64,
    pub seconds: f64,
    /// CPU time per byte: `sender` and `receiver` by the node's cgroup (QEMU included),
    /// `sender-process` and `receiver-process` by the workload's own accounting.
    pub cpu_ns_per_byte: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Datagrams lost, as a fraction (UDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_fraction: Option<f64>,
    /// Throughput of each interval: seconds since the start, bits per second.
    #[serde(default)]
    pub intervals: Vec<(f64, f64)>,
}

/// One question asked of the machine, with its answer. A failed check marks the trial overloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// `lateness`, `steal`, `runqueue`, `involuntary-switches`, `drops`, `clock-error`, …
    pub name: String,
    pub question: String,
    pub value: f64,
    /// Largest value that is still good.
    pub limit: f64,
    pub unit: String,
    /// `value <= limit`.
    pub passed: bool,
    /// Processes that had most of the CPUs, where `foreign-load` failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<Consumer>,
}

/// Processes of one name that had the CPUs over a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consumer {
    pub name: String,
    /// Share of the time of all watched CPUs.
    pub share: f64,
}

/// The records of taps and the flight recorder. The packets' ways and the kernel's events are tables of their
/// own; here is what must be known to read them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The table of the packets' ways, relative to the run directory.
    pub passages: String,
    /// The table of kernel events around the slowest packets, if the recorder ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// The devices in the order of the way, each between two taps.
    pub hops: Vec<Hop>,
    #[serde(default)]
    pub watched: Vec<WatchedCpu>,
    /// The hypervisor says how much time it takes away.
    #[serde(default)]
    pub steal_known: bool,
    /// The cost of the taps themselves, measured just before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruler: Option<Ruler>,
    /// Interruptions of the CPUs from underneath the kernel, as seen just before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hwlat: Vec<Hwlat>,
    /// Other interruptions of the CPUs without an event, as seen just before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<SilentStalls>,
    /// Nodes that stood still for an action, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// Names of the system calls in the events, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_calls: BTreeMap<u16, String>,
    /// The table of sampled stacks, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<String>,
    /// Samples of stacks in a second of a thread's running; 0: none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub sample_rate: u32,
    /// Samples for which there was no room.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub samples_lost: u32,
    /// Unknowns that follow, one sentence each.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// The taps' own error: the same packets between two taps with an empty wire in between, where there
/// is nothing to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ruler {
    pub median_ns: f64,
    /// The 99.99th percentile; absent when fewer than ten packets lie beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999_ns: Option<f64>,
    pub samples: u64,
    /// Packets that only one of the taps saw.
    pub lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The node, or the link.
    pub device: String,
    pub before: String,
    pub behind: String,
    pub counters: Counters,
    pub impossible: u64,
    pub no_room: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedCpu {
    pub cpu: u16,
    /// Nothing is known of it before, in ns of the machine's monotonic clock.
    pub complete_from_ns: u64,
    pub overwritten: u64,
    /// Times after `complete_from_ns` in which events were overwritten before they were read: what was in
    /// force then is not known until the next event tells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(u64, u64)>,
    /// Times around slow packets of which events were not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<(u64, u64)>,
}

/// The observations of one endpoint about itself during the trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub node: String,
    /// `sender` or `receiver`.
    pub role: String,
    /// Named observations: `cpu_user_ns`, `involuntary_switches`, `steal_ns`, …
    pub values: BTreeMap<String, f64>,
}
