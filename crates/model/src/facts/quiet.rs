//! Sources of disturbance of a CPU: interrupts, the kernel's own work, power saving. Read, not judged; a
//! setting that the kernel does not have is absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::CpuList;

/// An interrupt (`/proc/irq`, Documentation/core-api/irq/irq-affinity.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interrupt {
    pub number: u32,
    /// Its handlers, as the drivers name themselves; none while no driver asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// CPUs that it may be delivered to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<CpuList>,
    /// CPUs that it is delivered to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective: Option<CpuList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// How the CPUs save power (cpufreq and cpuidle).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Power {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_driver: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub governors: BTreeMap<String, CpuList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_governor: Option<String>,
    /// Idle states of the first CPU, the lightest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_states: Vec<IdleState>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// Its name, for example `C1E`.
    pub name: String,
    pub exit_latency_us: u64,
    pub disabled: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quiet {
    /// Microseconds of each period that real-time tasks may run; -1 without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_runtime_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_period_us: Option<u64>,
    /// The hard-lockup detector interrupts every CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nmi_watchdog: Option<bool>,
    /// The soft-lockup detector wakes a thread on every CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_watchdog: Option<bool>,
    /// Timers move to CPUs that are awake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_migration: Option<bool>,
    /// Seconds between two updates of memory statistics on a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_stat_interval_s: Option<u64>,
    /// Equal pages are being looked for (KSM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ksm: Option<bool>,
    /// CPUs whose RCU callbacks run elsewhere (`rcu_nocbs=`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcu_nocbs: Option<CpuList>,
    /// CPUs that unbound work may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workqueues: Option<CpuList>,
    /// CPUs that new interrupts may be delivered to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_interrupts: Option<CpuList>,
    /// A daemon moves interrupts (irqbalance); absent when processes could not be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irqbalance: Option<bool>,
    /// Threads of one core: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<String>,
    /// The mitigation of each flaw of the CPU, in the kernel's words.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupTree {
    /// Mount point of the unified hierarchy (version 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unified: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unified_controllers: Vec<String>,
    /// Controllers on hierarchies of their own (version 1), with the mount points.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
}
