//! The CPU, the timers and the memory of a virtual machine.

use serde::{Deserialize, Serialize};

use crate::words::vocabulary;

/// Hardware of a VM that differs from QEMU's and the profile's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VmHardware {
    /// QEMU's name of a CPU model. Without one it is `host` under KVM and `max` under emulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Differences from the model in the form of QEMU's `-cpu`: `+pmu`, `-avx512f`, `hv-relaxed=on`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The high precision event timer.
    pub hpet: bool,
    pub pit: LostTicks,
    #[serde(skip_serializing_if = "ToldTopology::is_exposed")]
    pub topology: ToldTopology,
    /// Memory of huge pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<bool>,
    /// All memory is there from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preallocate: Option<bool>,
    /// Memory that is never swapped out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_memory: Option<bool>,
}

/// Policy under KVM for ticks of the interval timer (PIT) that the guest could not take in time (`lost_tick_policy` of
/// QEMU's `kvm-pit`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostTicks {
    /// Delivered later, at the timer's rate.
    #[default]
    Delay,
    /// Never delivered.
    Discard,
}

vocabulary!(LostTicks, { "delay" => Delay, "discard" => Discard });

/// Whether a guest is told how its CPUs lie to each other on the host (Felter 2014, III).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToldTopology {
    /// Cores, threads, sockets and caches, where each of its CPUs has one of the host.
    #[default]
    Exposed,
    /// Each of its CPUs is a core like the others.
    Hidden,
}

vocabulary!(ToldTopology, { "exposed" => Exposed, "hidden" => Hidden });

impl ToldTopology {
    pub fn is_exposed(&self) -> bool {
        *self == ToldTopology::Exposed
    }
}

impl VmHardware {
    /// Differences of CPU and timers from the default, shown wherever the node is.
    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        facts.extend(self.cpu.as_ref().map(|model| format!("CPU model {model}")));
        if !self.features.is_empty() {
            facts.push(format!("CPU features {}", self.features.join(" ")));
        }
        if self.hpet {
            facts.push("HPET".into());
        }
        if self.pit != LostTicks::default() {
            facts.push(format!("lost PIT ticks: {}", self.pit));
        }
        if !self.topology.is_exposed() {
            facts.push("CPU topology hidden".into());
        }
        facts
    }
}
