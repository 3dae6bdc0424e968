//! The document: what a machine has and can do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use crate::results::HostBrief;
use crate::units::CpuList;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Always [`Facts::FORMAT`] in what is written; a description by hand may leave it out.
    #[serde(default)]
    pub format: String,
    /// The summary that every reader wants beside the numbers.
    pub brief: HostBrief,
    /// CPUs that may be used.
    pub cpus: CpuList,
    /// Names of interfaces in the root network namespace.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Its capabilities, by name; see the constants of [`Facts`].
    pub capabilities: BTreeMap<String, Capability>,
    /// Capabilities that could not be tried, with the reason; they are not in `capabilities`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproven: BTreeMap<String, String>,
    /// Tools by name, with their versions.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// CPUs already given away by other labs.
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
}

/// Whether the machine can do something, proven, with the reason where it cannot.
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
    /// Guests run on the CPU itself, through `/dev/kvm`.
    pub const KVM: &'static str = "kvm";
    /// Network traffic between guests and host stays in the kernel.
    pub const VHOST_NET: &'static str = "vhost-net";
    /// Namespaces of every kind a node needs.
    pub const NAMESPACES: &'static str = "namespaces";
    /// A writable layer over a read-only root.
    pub const OVERLAYFS: &'static str = "overlayfs";
    pub const CGROUP_CPU: &'static str = "cgroup-cpu";
    pub const CGROUP_MEMORY: &'static str = "cgroup-memory";
    pub const CGROUP_CPUSET: &'static str = "cgroup-cpuset";
    /// Limits on the number of processes.
    pub const CGROUP_PIDS: &'static str = "cgroup-pids";
    /// A pair of virtual Ethernet interfaces.
    pub const VETH: &'static str = "veth";
    /// The same without a queue in between.
    pub const NETKIT: &'static str = "netkit";
    /// A switch in the kernel.
    pub const BRIDGE: &'static str = "bridge";
    /// Several Ethernet addresses on one interface.
    pub const MACVLAN: &'static str = "macvlan";
    /// The same, for a virtual machine.
    pub const MACVTAP: &'static str = "macvtap";
    /// Ethernet in UDP.
    pub const VXLAN: &'static str = "vxlan";
    /// The virtual machines' end of a link.
    pub const TAP: &'static str = "tap";
    /// Masquerading with nftables.
    pub const MASQUERADE: &'static str = "masquerade";
    /// Limits on the rate of a link.
    pub const TBF: &'static str = "tbf";
    /// Delay, jitter and loss in the kernel.
    pub const NETEM: &'static str = "netem";
    /// Programs in the kernel.
    pub const BPF: &'static str = "bpf";
    /// The kernel's own types, for programs that run on any version of it.
    pub const BPF_BTF: &'static str = "bpf-btf";
    /// BPF programs at the kernel's tracepoints.
    pub const BPF_RAW_TRACEPOINT: &'static str = "bpf-raw-tracepoint";
    /// Sockets that take frames before the network stack.
    pub const AF_XDP: &'static str = "af-xdp";
    pub const HUGE_PAGES: &'static str = "huge-pages";
    /// Interrupts can be moved away from the CPUs that measure.
    pub const IRQ_AFFINITY: &'static str = "irq-affinity";
    /// A kernel that can be preempted nearly everywhere.
    pub const REALTIME: &'static str = "realtime-kernel";
    /// CPUs that were kept free at boot.
    pub const ISOLATED_CPUS: &'static str = "isolated-cpus";
}

impl Facts {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.facts/1";

    /// Why a capability is missing; `None` when it works or was not tried.
    pub fn lacks(&self, capability: &str) -> Option<&Capability> {
        self.capabilities.get(capability).filter(|c| !c.works)
    }

    /// Whether a capability was proven to work.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|c| c.works)
    }

    /// Whether a tool is missing.
    pub fn lacks_tool(&self, tool: &str) -> bool {
        !self.tools.contains_key(tool)
    }
}
