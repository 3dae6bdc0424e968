//! Which CPUs and memory everything of a lab uses, with the reason of every choice: HVNet's
//! blueprint (Daichendt 2022, 4.2 and 5.5), for nodes of every kind.
//!
//! The blueprint is part of the plan, so of the state of a deployed lab; all labs together see to it that no
//! CPU is given twice.

use serde::{Deserialize, Serialize};

use crate::units::CpuList;

/// Where everything of a lab runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blueprint {
    /// The host's own CPUs: its processes, and the nodes that ask for nothing.
    pub housekeeping: Given,
    /// With a profile that isolates: what the nodes without CPUs of their own share among
    /// themselves, and with no other. The scheduler must balance *within* it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Given>,
    /// Given away and left idle, so that a core has one user only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Given>,
    /// Where interrupts go that no network interface below says more about.
    pub interrupts: Given,
    /// The CPUs of those of the kernel's own threads that can be moved.
    pub kernel_threads: Given,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<NicPlace>,
    pub nodes: Vec<NodePlace>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub cpus: CpuList,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicPlace {
    pub name: String,
    pub interrupts: Given,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    Own,
    /// Shared with the lab's other nodes.
    Pool,
    Host,
    /// Those that the lab names, shared with all others that may use them.
    Named,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlace {
    pub name: String,
    pub share: Share,
    /// Its CPUs; a VM's virtual CPUs run on them.
    pub cores: Given,
    /// The CPU of each virtual CPU in order, where each has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vcpus: Vec<u32>,
    /// Where a VM's other threads run: device emulation, I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Given>,
    /// Its memory nodes, on a machine with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPlace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlace {
    pub nodes: CpuList,
    pub why: String,
}

impl Given {
    pub(super) fn new(cpus: Vec<u32>, why: impl Into<String>) -> Given {
        Given {
            cpus: CpuList::new(cpus),
            why: why.into(),
        }
    }

    /// The same CPUs, for another reason.
    pub(super) fn because(&self, why: impl Into<String>) -> Given {
        Given {
            cpus: self.cpus.clone(),
            why: why.into(),
        }
    }
}

impl Blueprint {
    pub fn node(&self, name: &str) -> Option<&NodePlace> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// CPUs that belong to this lab alone: no other lab may be given them.
    pub fn given(&self) -> CpuList {
        let own = self.nodes.iter().filter(|n| n.share == Share::Own);
        let cores = own.clone().flat_map(|n| n.cores.cpus.iter());
        let emulators = own.filter_map(|n| n.emulator.as_ref());
        let emulators = emulators.flat_map(|e| e.cpus.iter());
        let shared = [&self.pool, &self.idle].into_iter().flatten();
        let all = cores
            .chain(emulators)
            .chain(shared.flat_map(|g| g.cpus.iter()));
        // An emulator may run among the host's own threads.
        CpuList::new(
            all.filter(|c| !self.housekeeping.cpus.contains(*c))
                .collect(),
        )
    }
}

impl NodePlace {
    /// Everything that its threads may run on.
    pub fn cpuset(&self) -> CpuList {
        let emulator = self.emulator.iter().flat_map(|e| e.cpus.iter());
        CpuList::new(self.cores.cpus.iter().chain(emulator).collect())
    }
}
