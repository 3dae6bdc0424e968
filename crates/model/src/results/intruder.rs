//! Intruders on a CPU that was to be kept for a lab.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntruderKind {
    Process,
    KernelThread,
    Interrupt,
}

/// Something that ran where it should not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intruder {
    pub kind: IntruderKind,
    /// Its name: of the thread, or of the interrupt's owner.
    pub name: String,
    pub id: u32,
    pub cpu: u32,
    /// Run time since the last check, where that is known (threads).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_ns: Option<u64>,
    /// Number since the last check (interrupts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Its cgroup, where it is in one (threads).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

impl fmt::Display for Intruder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Intruder { name, id, cpu, .. } = self;
        match self.kind {
            IntruderKind::Process => write!(f, "process `{name}` (thread {id}) on CPU {cpu}")?,
            IntruderKind::KernelThread => write!(f, "kernel thread `{name}` ({id}) on CPU {cpu}")?,
            IntruderKind::Interrupt => write!(f, "interrupt {id} `{name}` on CPU {cpu}")?,
        }
        if let Some(group) = &self.group {
            write!(f, ", of group {group},")?;
        }
        if let Some(ns) = self.ran_ns {
            write!(f, " for {:.3} ms", ns as f64 / 1e6)?;
        }
        match self.times {
            Some(1) => f.write_str(" once"),
            Some(times) => write!(f, " {times} times"),
            None => Ok(()),
        }
    }
}
