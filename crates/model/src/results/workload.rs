//! The results of a workload: what the program in each node said, when it ran, and what the nodes cost.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The meaning of each node's values; the first is the metric of the measurement.
    pub figures: Vec<Figure>,
    /// The version that the program says of itself, in the first node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// From the first node's begin to the last one's.
    pub begin_spread_ns: u64,
    /// Bound of the error of that, where nodes have clocks of their own.
    pub clock_error_ns: u64,
    /// CPU time of all processes of the machine, from before the first begin until after the last end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cpu_ns: Option<u64>,
    /// How much less memory the host has available, with all programs waiting to begin, than before the lab was
    /// deployed. It is that of the whole machine: others take from it and give to it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_lost_bytes: Option<i64>,
    /// In the order of the measurement. Of a job of several nodes only that one which began it.
    pub nodes: Vec<NodeWorkload>,
    /// The number of nodes of such a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_nodes: Option<u32>,
}

impl WorkloadResult {
    /// The number of nodes that worked.
    #[must_use]
    pub fn count(&self) -> u32 {
        let alone = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.job_nodes.unwrap_or(alone)
    }
}

/// A quantity of which each node has a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// `metric`, `latency-p99`, …
    pub name: String,
    /// For people.
    pub title: String,
    pub unit: String,
    pub higher_is_better: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeWorkload {
    pub node: String,
    /// In the order of [`WorkloadResult::figures`].
    pub values: Vec<f64>,
    /// Begin and end of its program, after the first node's begin.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// CPU time of the node's cgroup meanwhile: a VM's with all of QEMU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    pub memory: NodeMemory,
    /// The program's standard output and standard error, relative to the run directory.
    pub output: String,
    pub errors: String,
    /// The node that ran it, where that is another one: a client, whose server is in `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The server's standard output and standard error, relative to the run directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<[String; 2]>,
    /// The file system that its files are on, and whether that is in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_on: Option<String>,
}

/// A client in another node than its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub node: String,
    /// CPU time of its node's cgroup while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
}

/// Two readings of a node's memory, with its program waiting to begin. They differ: pages that several nodes share
/// count in part, in whole, or for the first that touched them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMemory {
    /// Proportional set size of its processes on the host (proc_pid_smaps(5)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// The charge of its cgroup; page cache that it touched first is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_bytes: Option<u64>,
}
