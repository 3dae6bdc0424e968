//! The document: what a machine has and can do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::{Machine, Nic};
use super::wiring::Wiring;
use crate::results::HostBrief;
use crate::units::CpuList;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Always [`Facts::FORMAT`] in what is written; a description by hand may leave it out.
    #[serde(default)]
    pub format: String,
    pub brief: HostBrief,
    /// CPUs that may be used.
    pub cpus: CpuList,
    /// Names of interfaces in the root network namespace.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Those of them that something uses, with what it is: they cannot be given to a node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces_in_use: BTreeMap<String, String>,
    /// Its capabilities, by name; see the constants of [`Facts`].
    pub capabilities: BTreeMap<String, Capability>,
    /// Capabilities that could not be tried, with the reason; they are not in `capabilities`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproven: BTreeMap<String, String>,
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    #[serde(default)]
    pub cpus_taken: Vec<u32>,
    /// CPUs that a person's tuning keeps quiet, which `cpus` is therefore without: only nodes
    /// of labs that want quiet CPUs too are put there.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub cpus_quiet: CpuList,
    /// Its hardware. Placement needs its CPUs, memory nodes and network interfaces; where
    /// they are not told, every CPU counts as a core of one memory node.
    #[serde(default)]
    pub machine: Machine,
    /// The ports and cables of the machine's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiring: Option<Wiring>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub works: bool,
    /// How it was proven, or why it does not work.
    pub reason: String,
    /// The cost of its absence to the user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub costs: String,
    /// The command that supplies it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Names of capabilities. They are keys of a published document: they may be added, not changed.
impl Facts {
    pub const KVM: &'static str = "kvm";
    pub const VHOST_NET: &'static str = "vhost-net";
    /// Namespaces of every kind a node needs.
    pub const NAMESPACES: &'static str = "namespaces";
    pub const OVERLAYFS: &'static str = "overlayfs";
    /// A file as a disk, past the page cache.
    pub const LOOP: &'static str = "loop";
    /// Asynchronous system calls for every user.
    pub const IO_URING: &'static str = "io-uring";
    /// Dump and restore of processes with open connections.
    pub const CRIU: &'static str = "criu";
    pub const CGROUP_CPU: &'static str = "cgroup-cpu";
    pub const CGROUP_MEMORY: &'static str = "cgroup-memory";
    pub const CGROUP_CPUSET: &'static str = "cgroup-cpuset";
    pub const CGROUP_PIDS: &'static str = "cgroup-pids";
    pub const VETH: &'static str = "veth";
    pub const NETKIT: &'static str = "netkit";
    pub const BRIDGE: &'static str = "bridge";
    pub const MACVLAN: &'static str = "macvlan";
    pub const MACVTAP: &'static str = "macvtap";
    pub const VXLAN: &'static str = "vxlan";
    /// Devices of the PCI bus given to VMs and programs behind an IOMMU.
    pub const VFIO: &'static str = "vfio";
    pub const TAP: &'static str = "tap";
    pub const MASQUERADE: &'static str = "masquerade";
    pub const TBF: &'static str = "tbf";
    pub const NETEM: &'static str = "netem";
    pub const BPF: &'static str = "bpf";
    pub const BPF_BTF: &'static str = "bpf-btf";
    pub const BPF_RAW_TRACEPOINT: &'static str = "bpf-raw-tracepoint";
    pub const AF_XDP: &'static str = "af-xdp";
    pub const HUGE_PAGES: &'static str = "huge-pages";
    pub const IRQ_AFFINITY: &'static str = "irq-affinity";
    pub const REALTIME: &'static str = "realtime-kernel";
    pub const ISOLATED_CPUS: &'static str = "isolated-cpus";
}

impl Facts {
    pub const FORMAT: &'static str = "latlab.facts/1";

    /// Why a capability is missing; `None` when it works or was not tried.
    pub fn lacks(&self, capability: &str) -> Option<&Capability> {
        self.capabilities.get(capability).filter(|c| !c.works)
    }

    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|c| c.works)
    }

    /// An interface with a device behind it.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.machine.nics.iter().find(|nic| nic.name == name)
    }

    pub fn lacks_tool(&self, tool: &str) -> bool {
        !self.tools.contains_key(tool)
    }
}
