//! Limits of a node, and the controllers that carry them.

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

use super::error::{DEVICES, PROCESSES};
use crate::sys::devices::Device;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Which CPUs and memory nodes.
    Cpuset,
    Cpu,
    /// CPU time used (version 1 only; part of the core on version 2).
    Cpuacct,
    Memory,
    Pids,
    /// Stops all processes of a group (version 1 only; part of the core on version 2).
    Freezer,
    /// Which devices (version 1 only; a BPF program on version 2).
    Devices,
    /// Huge pages, which no other controller counts.
    Hugetlb,
}

impl Controller {
    const ALL: [Self; 8] = [
        Self::Cpuset,
        Self::Cpu,
        Self::Cpuacct,
        Self::Memory,
        Self::Pids,
        Self::Freezer,
        Self::Devices,
        Self::Hugetlb,
    ];

    /// The controllers that carry a limit a node can ask for.
    pub const LIMITING: [Self; 4] = [Self::Cpuset, Self::Cpu, Self::Memory, Self::Pids];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpuset => "cpuset",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
            Self::Devices => "devices",
            Self::Hugetlb => "hugetlb",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time, in CPUs (1.5 is one and a half).
    ///
    /// On version 1 of a kernel with real-time group scheduling, this group keeps real-time programs
    /// out (`SCHED_FIFO`, `SCHED_RR`). The kernel gives a new group no real-time share, and shares
    /// cannot be given to an unknown number of groups.
    pub cpus: Option<f64>,
    pub cpuset: Option<CpuList>,
    /// Its CPUs are those of the partition that the tuning made ([`PARTITION`](super::PARTITION)), so its group
    /// belongs below that one; with `cpuset` only.
    #[serde(default)]
    pub partition: bool,
    /// The memory nodes that its memory may come from, by number; with `cpuset` only.
    #[serde(default)]
    pub memory_nodes: Option<CpuList>,
    /// Memory, in bytes. The node gets no swap beyond it.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    /// Only the devices that every program expects ([`COMMON`](crate::sys::devices::COMMON)), and these.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// Memory in huge pages, where something counts it: a file system bounds it anyway, and only that can be promised.
    #[serde(default)]
    pub huge_pages: Option<HugePages>,
}

/// Bytes in pages of one size; none are allowed in others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    pub page_bytes: u64,
    pub bytes: u64,
}

impl Limits {
    /// The controllers these limits need, each with the words for it.
    pub(super) fn needs(&self) -> Vec<(Controller, &'static str)> {
        let all = [
            (self.cpuset.is_some(), Controller::Cpuset, "the set of CPUs"),
            (self.cpus.is_some(), Controller::Cpu, "CPU time"),
            (self.memory_bytes.is_some(), Controller::Memory, "memory"),
            (self.pids.is_some(), Controller::Pids, PROCESSES),
            (self.devices.is_some(), Controller::Devices, DEVICES),
            (self.huge_pages.is_some(), Controller::Hugetlb, "huge pages"),
        ];
        let asked_for = all.into_iter().filter(|(is_asked_for, ..)| *is_asked_for);
        asked_for.map(|(_, of, words)| (of, words)).collect()
    }
}
