//! The state of a deployed lab, which `inspect` prints.

use serde::{Deserialize, Serialize};

use crate::kinds::NodeKind;
use crate::plan::Plan;

/// `state.json` of a deployed lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabState {
    /// Always [`LabState::FORMAT`].
    pub format: String,
    pub lab: String,
    /// Unique for this deployment; the owner's label on everything made for it.
    pub id: String,
    /// Boot of the host during which it was deployed; after another boot its objects are gone.
    pub boot_id: String,
    /// RFC 3339, UTC.
    pub deployed: String,
    /// Absolute path of the lab's file, for people; never needed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub plan: Plan,
    /// Nodes as they were started, in the plan's order.
    pub nodes: Vec<NodeState>,
    /// Paths in the cache that its nodes use; none of a lab that an earlier latlab deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Vec<String>>,
    pub ready: bool,
}

impl LabState {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.state/2";
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// First process of a container, or QEMU; absent for native and host nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its start time in clock ticks since boot, so that a reused pid is not mistaken for it.
    #[serde(default)]
    pub start_time: u64,
    /// The node on whose hosts it is, if it has moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How often it has moved.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub moves: u32,
}

/// One row of `inspect`; keys follow containerlab where it has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    pub lab_name: String,
    /// The machine that it is on, where the lab names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub name: String,
    pub kind: NodeKind,
    pub image: String,
    /// `running`, `paused`, `exited`, or `gone` (after a reboot).
    pub state: String,
    pub pid: Option<u32>,
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
    /// CPUs it is confined to.
    pub cpuset: Option<String>,
    pub memory_bytes: Option<u64>,
    /// First IPv4 address with prefix length.
    pub ipv4_address: Option<String>,
    /// First IPv6 address with prefix length.
    pub ipv6_address: Option<String>,
    /// `eth0@l0` and so on.
    pub interfaces: Vec<String>,
    /// Its storage, each with the way to its files.
    #[serde(default)]
    pub storage: Vec<String>,
    /// Software emulation, where it is.
    pub acceleration: Option<String>,
    /// Its start, which only its deployment tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<RowStart>,
}

/// A start as in a run's results ([`NodeStart`](crate::results::NodeStart)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowStart {
    pub began_ns: u64,
    pub ready_ns: u64,
}
