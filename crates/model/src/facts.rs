//! What the planner knows of a machine. Read from the machine by `latlab-host`, or from a file that
//! describes one that nobody here owns; planning cannot tell the difference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::HostBrief;
use crate::units::CpuList;

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// What every reader wants beside the numbers.
    pub brief: HostBrief,
    /// Processors that may be used.
    pub cpus: CpuList,
    /// Names of interfaces in the root network namespace.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// What it can and cannot do, by name; see the constants of [`Capability`].
    pub capabilities: BTreeMap<String, Capability>,
    /// Tools by name, with their versions.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// Processors already given away by other labs.
    #[serde(default)]
    pub cpus_taken: Vec<u32>,
}

/// Whether the machine can do something, proven, with the reason where it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Proven to work.
    pub works: bool,
    /// How it was proven, or why it does not work.
    pub reason: String,
    /// What its absence costs the user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub costs: String,
    /// The command that supplies it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Facts {
    /// Name of the capability to run guests on the processor itself.
    pub const KVM: &'static str = "kvm";
    /// Delay, jitter and loss in the kernel.
    pub const NETEM: &'static str = "netem";
    /// Limits on processor time.
    pub const CGROUP_CPU: &'static str = "cgroup-cpu";
    /// Limits on memory.
    pub const CGROUP_MEMORY: &'static str = "cgroup-memory";
    /// Confinement to processors.
    pub const CGROUP_CPUSET: &'static str = "cgroup-cpuset";

    /// Why a capability is missing; `None` when it works or nobody looked.
    pub fn lacks(&self, capability: &str) -> Option<&Capability> {
        self.capabilities.get(capability).filter(|c| !c.works)
    }

    /// Why a tool is missing, as a hint; `None` when it is there.
    pub fn lacks_tool(&self, tool: &str) -> bool {
        !self.tools.contains_key(tool)
    }
}
