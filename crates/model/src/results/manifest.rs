//! The manifest: everything fixed before the first packet, so that a run can be judged, compared
//! and repeated. It is written first, marked incomplete, and marked complete last; whatever stops a
//! run in between leaves a directory that says so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`Manifest::FORMAT`].
    pub format: String,
    /// Directory name of the run: study name and start time.
    pub id: String,
    pub study: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub state: RunState,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC; absent while the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Seed of the order of trials and of every random choice.
    pub seed: u64,
    pub replicates: u32,
    pub host: HostBrief,
    pub versions: Versions,
    /// Factors with their levels, in the study's order.
    pub factors: Vec<super::setup::Factor>,
    pub measurements: Vec<super::setup::MeasurementInfo>,
    /// Levels of the baseline; factors not named are held equal.
    pub baseline: BTreeMap<String, String>,
    /// Baselines of a factor whose levels are not all compared with the same: the one for each, by factor and level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub against: BTreeMap<String, BTreeMap<String, String>>,
    /// The paper whose study this is, as `latlab paper` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    pub cells: Vec<CellPlan>,
    /// Trials in the order in which they are run.
    pub order: Vec<PlannedTrial>,
    /// Absent for a whole run. The order above is that of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The lab of each combination, drawn in the report.
    pub topologies: Vec<super::setup::Topology>,
    /// SHA-256 of every raw file of the run (the study and all below `trials/`), by relative path;
    /// filled in at the end. What is computed from them may be computed again and has none.
    #[serde(default)]
    pub checksums: BTreeMap<String, String>,
}

impl Manifest {
    pub const FORMAT: &'static str = "latlab.manifest/1";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RunState {
    /// Still going on, or killed: nothing later than this was written.
    Running,
    Complete,
    /// The run stopped early; its samples are kept.
    Incomplete {
        reason: String,
    },
}

/// A part of a run, for a machine of several or a moment of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// From 1.
    pub number: u32,
    /// Number of parts of the run.
    pub of: u32,
    /// Host name of the machine that measured it.
    pub machine: String,
    /// Numbers of its first and its last trial.
    pub first: u32,
    pub last: u32,
}

impl Part {
    /// Whether a trial of the run is one of this part.
    pub fn has(&self, trial: u32) -> bool {
        (self.first..=self.last).contains(&trial)
    }
}

/// The few facts of the host that every reader wants beside the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostBrief {
    pub cpu: String,
    pub cores: u32,
    pub memory_bytes: u64,
    /// `uname -r`.
    pub kernel: String,
    pub distribution: String,
    /// Hypervisor underneath, when the machine is itself virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// `kvm`, or `tcg` (software emulation).
    pub acceleration: String,
    /// Why it is not KVM, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceleration_reason: Option<String>,
    /// `v1`, `v2`, `hybrid` or `none`.
    pub cgroup: String,
    pub clocksource: String,
}

impl HostBrief {
    /// The end of the name of a hypervisor without hardware's help.
    pub const EMULATED: &str = "(software emulation)";

    /// The facts of several machines in one: texts side by side, the least of the numbers.
    pub fn joined(hosts: &[&HostBrief]) -> HostBrief {
        let text = |field: fn(&HostBrief) -> &str| {
            let mut texts: Vec<&str> = Vec::new();
            for text in hosts.iter().map(|host| field(host)) {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            texts.join(" | ")
        };
        let optional =
            |field: fn(&HostBrief) -> &str| Some(text(field)).filter(|text| !text.is_empty());
        let (cores, memory) = (
            hosts.iter().map(|host| host.cores).min(),
            hosts.iter().map(|host| host.memory_bytes).min(),
        );
        HostBrief {
            cpu: text(|host| &host.cpu),
            cores: cores.unwrap_or_default(),
            memory_bytes: memory.unwrap_or_default(),
            kernel: text(|host| &host.kernel),
            distribution: text(|host| &host.distribution),
            hypervisor: optional(|host| host.hypervisor.as_deref().unwrap_or_default()),
            acceleration: text(|host| &host.acceleration),
            acceleration_reason: optional(|host| {
                host.acceleration_reason.as_deref().unwrap_or_default()
            }),
            cgroup: text(|host| &host.cgroup),
            clocksource: text(|host| &host.clocksource),
        }
    }

    /// Whether its CPUs are those of a hypervisor that emulates them.
    pub fn is_emulated(&self) -> bool {
        let name = self.hypervisor.as_deref().unwrap_or_default();
        name.contains(HostBrief::EMULATED)
    }

    /// False of imported captures.
    pub fn is_known(&self) -> bool {
        !self.cpu.is_empty()
    }
}

/// Versions of latlab and of the tools that took part, by name.
pub type Versions = BTreeMap<String, String>;

/// One combination of factor levels and measurement, before it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellPlan {
    /// Stable identifier: measurement and levels, for example `rr-udp/kind=vm/link=veth`.
    pub id: String,
    pub measurement: String,
    pub levels: BTreeMap<String, String>,
    /// Where it ran: what was emulated, which limits were in force.
    pub environment: super::setup::Environment,
    /// Index into [`Manifest::topologies`].
    pub topology: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTrial {
    /// Number of the trial, from 1, also its directory's name (`trials/0001`).
    pub trial: u32,
    /// [`CellPlan::id`].
    pub cell: String,
    /// From 1.
    pub replicate: u32,
}
