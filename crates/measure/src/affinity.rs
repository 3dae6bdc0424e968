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
