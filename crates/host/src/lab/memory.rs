//! How much memory nodes take: three readings that count shared pages in different ways.

use std::fs;

use latlab_model::results::NodeMemory;

use super::deployed::Lab;
use super::error::Error;

impl Lab {
    /// Memory that the host had available before the lab was deployed, if this process deployed it.
    pub fn available_before(&self) -> Option<u64> {
        self.available_before
    }

    /// The memory of a node's processes on the host, and what its cgroup is charged for. Fails when there is no such
    /// node, or its namespace has gone.
    pub fn node_memory(&self, node: &str) -> Result<NodeMemory, Error> {
        let (_, plan) = self.node(node)?;
        let group = self.cgroup(plan)?;
        let mut processes = self.processes(node)?;
        // A guest's helpers are in its group; a group may be without a list, as on the host itself.
        processes.extend(group.pids().unwrap_or_default());
        processes.sort_unstable();
        processes.dedup();
        Ok(NodeMemory {
            pss_bytes: pss_bytes(&processes),
            cgroup_bytes: group.memory_bytes(),
        })
    }
}

/// Memory that the host has available by its kernel's estimate (proc_meminfo(5)); `None` where it gives none.
pub fn available_bytes() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:")
}

/// Sum of the proportional set sizes of these processes, without those that end meanwhile; `None` of no process.
fn pss_bytes(processes: &[u32]) -> Option<u64> {
    let of = |pid: &u32| kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    let known: Vec<u64> = processes.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

/// A line of a file in kilobytes, in bytes.
fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_size_of_this_process_is_within_the_machine() {
        let own = pss_bytes(&[std::process::id()]).unwrap();
        assert!(own > 0 && own < kilobytes("/proc/meminfo", "MemTotal:").unwrap());
        assert!(available_bytes().unwrap() > 0);
        // Past the largest number that a process can have.
        assert_eq!(pss_bytes(&[u32::MAX]), None);
    }
}
