//! CPU affinity of latlab itself.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, which a node that is not confined inherits.
pub(crate) fn allowed_cpus() -> BTreeSet<u32> {
    let own = sched_getaffinity(None).unwrap_or_default();
    let all = 0..CpuSet::MAX_CPU as u32;
    all.filter(|&cpu| own.is_set(cpu as usize)).collect()
}

pub(crate) fn pin_thread(cpu: u32) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set)
}
