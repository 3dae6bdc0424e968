//! The hardware of a machine, as it was read: nothing here was tried.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quiet::{CgroupTree, Interrupt, Power, Quiet};
use crate::units::CpuList;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub processors: Processors,
    pub memory: Memory,
    pub kernel: Kernel,
    pub clock: Clock,
    pub power: Power,
    pub quiet: Quiet,
    pub cgroup: CgroupTree,
    pub interrupts: Vec<Interrupt>,
    /// Its network interfaces that have hardware, or a hypervisor, behind them.
    pub nics: Vec<Nic>,
    /// Space on the file systems that latlab writes to.
    pub storage: Vec<Storage>,
    pub guest_kernels: Vec<GuestKernel>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processors {
    /// As `uname -m` says.
    pub architecture: String,
    pub sockets: u32,
    pub cores: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<CpuList>,
    /// Each set of logical CPUs that share one core; empty without SMT.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<CpuList>,
    /// Kinds of cores, on machines that have more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<CoreClass>,
    pub numa: Vec<NumaNode>,
    pub caches: Vec<Cache>,
    /// Kept out of the scheduler's balancing at boot (`isolcpus=`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<CpuList>,
    /// Without a periodic tick while one task runs (`nohz_full=`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nohz_full: Option<CpuList>,
    /// Share of CPU time that the hypervisor took away since boot, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_since_boot: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreClass {
    /// The kernel's word for it: `core`, `atom`, `capacity 446`.
    pub name: String,
    pub cpus: CpuList,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    pub id: u32,
    /// Its logical CPUs; none on a node of memory only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    pub memory_bytes: u64,
    /// How far the memory of each node is, in the order of the nodes (ACPI SLIT: 10 is its own).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    pub size_bytes: u64,
    /// Logical CPUs that share one of it.
    pub shared_by: u32,
    /// CPUs that share each one, where that is more than the threads of one core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CpuList>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    pub total_bytes: u64,
    /// Bytes available without swapping.
    pub available_bytes: u64,
    pub swap_bytes: u64,
    /// Bytes of one huge page of the default size.
    pub huge_page_bytes: u64,
    pub huge_pages: u64,
    /// Reserved pages not in use.
    pub huge_pages_free: u64,
    /// `always`, `madvise` or `never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub transparent_huge_pages: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    pub command_line: String,
    /// Built with PREEMPT_RT.
    pub realtime: bool,
    pub modules: bool,
    /// Options it was built with that decide what can be quieted (`CONFIG_NO_HZ_FULL`), without the
    /// prefix; empty when the kernel's configuration is nowhere to be found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    pub source: String,
    /// The kernel could use these.
    pub available: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Mbit/s; absent while the link is down and on virtual cards that do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbit: Option<u32>,
    pub carrier: bool,
    /// Its device on the PCI bus, such as `0000:03:00.0`; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// The IOMMU group of that, where there is an IOMMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu_group: Option<u32>,
    /// The other devices of the group that are no bridges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iommu_others: Vec<String>,
    /// Ways in which the kernel can reset that, in its order; absent where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_methods: Option<Vec<String>>,
    /// Its maker, such as `QEMU`, where it is no hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulated_by: Option<String>,
    /// Virtual functions it could be divided into.
    pub sriov_vfs: u32,
    /// Takes timestamps of received packets itself; absent when it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_timestamps: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    #[serde(skip_serializing_if = "crate::is_default")]
    pub receive_queues: u32,
    #[serde(skip_serializing_if = "crate::is_default")]
    pub send_queues: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<u32>,
}

impl Nic {
    /// Whether the kernel knows no way to reset its device, so that one user would find what another left in it.
    pub fn keeps_its_state(&self) -> bool {
        self.reset_methods.as_ref().is_some_and(Vec::is_empty)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// The directory that was asked about.
    pub path: String,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Labs have their state there, and the storage of their nodes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub of_labs: bool,
    /// Its files are in memory.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub in_memory: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestKernel {
    /// `standard`, `rt` or `cloud`, where it is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour: Option<String>,
    /// `uname -r` inside.
    pub release: String,
    pub path: String,
}
