//! CPU affinities: of latlab itself, and of other processes.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, which a node that is not confined inherits.
pub(crate) fn allowed_cpus() -> BTreeSet<u32> {
    numbers(sched_getaffinity(None))
}

/// The CPUs that another process may use.
pub(crate) fn cpus_of(pid: u32) -> BTreeSet<u32> {
    numbers(sched_getaffinity(Pid::from_raw(pid as i32)))
}

fn numbers(set: Result<CpuSet, Errno>) -> BTreeSet<u32> {
    let set = set.unwrap_or_default();
    let all = 0..CpuSet::MAX_CPU as u32;
    all.filter(|&cpu| set.is_set(cpu as usize)).collect()
}

pub(crate) fn pin_thread(cpu: u32) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set)
}

/// Whether time on these CPUs can be subtracted as no foreign load: all of it was on the watched ones. Where
/// the endpoints of an isolated lab share the host's CPUs, latlab matches millions of packets beside them. If
/// it may also run elsewhere, its share of the watched CPUs is unknown and counts as foreign.
pub(crate) fn is_within(own: &BTreeSet<u32>, watched: Option<&BTreeSet<u32>>) -> bool {
    watched.is_none_or(|watched| !own.is_empty() && own.is_subset(watched))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_is_no_foreign_load_if_all_own_cpus_are_watched() {
        let (host, both, device) = ([0].into(), [0, 1].into(), [1].into());
        assert!(is_within(&both, None), "all CPUs are shared");
        assert!(is_within(&host, Some(&both)));
        assert!(!is_within(&both, Some(&device)));
        assert!(!is_within(&host, Some(&device)));
        assert!(!is_within(&BTreeSet::new(), Some(&both)));
    }
}
