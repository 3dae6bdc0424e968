//! The setup of a run as both the manifest and the summary tell it: factors, measurements, environments, labs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Short name, for example `kind`.
    pub name: String,
    /// Field of the lab that it sets, for example `topology.nodes.server.kind`.
    pub path: String,
    pub levels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasurementInfo {
    pub name: String,
    /// `rr`, `packets`, `stream`, `forward` or `workload`.
    pub probe: String,
    /// One line for people: protocol, sizes, rate, duration, from, to.
    pub description: String,
    /// The meaning of the latency axis: `round trip` or `one way`; absent for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Its place in a sweep of one of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPoint>,
}

/// The place of a measurement among those of its sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The measurement's name as written.
    pub sweep: String,
    /// The parameter's path, such as `program.connections`.
    pub parameter: String,
    /// Its value here, as written.
    pub value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// A node, a card below it or the machine itself is emulated: its times say nothing of a real one's.
    pub emulated: bool,
    /// The emulated parts, each with its emulator: `the machine (QEMU, software emulation)`, `card eth0 (igb, by QEMU)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emulation: Vec<String>,
    /// Short facts for people, by name: `server: vm (tcg)`, `cgroup: v1`, …
    pub facts: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    pub lab: String,
    pub levels: BTreeMap<String, String>,
    pub nodes: Vec<TopologyNode>,
    pub links: Vec<TopologyLink>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    pub name: String,
    /// `native`, `container`, `vm` or `host`.
    pub kind: String,
    /// Short facts: `1 CPU`, `256 MiB`, `kernel 6.1.0-37-amd64`.
    pub facts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyLink {
    pub name: String,
    /// `veth`, `bridge`, `nat`, `macvlan` or `vxlan`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short facts: `mtu 1500`, `delay 1ms`.
    pub facts: Vec<String>,
    pub endpoints: Vec<TopologyEndpoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyEndpoint {
    pub node: String,
    pub interface: String,
    pub addresses: Vec<String>,
}
