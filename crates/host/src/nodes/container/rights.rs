//! The rights of a container's first process, as the kernel tells them.

use super::config::Config;
use super::error::Error;
use crate::sys::proc::Status;
use crate::sys::process::Process;

/// Whether a process is under a seccomp filter (proc_pid_status(5)).
pub(super) fn is_filtered(process: &Process) -> bool {
    Status::of(process.id().pid).is_ok_and(|status| status.field("Seccomp") == "2")
}

/// The first process must have no right beyond those that it was to get.
pub(super) fn check(process: &Process, document: &Config) -> Result<(), Error> {
    let status = Status::of(process.id().pid)?;
    let wanted = document.capabilities().into_iter();
    let wanted = wanted.fold(0, |set, n| set | 1u64 << n);
    let is_within = |name: &str| {
        let set = u64::from_str_radix(status.field(name), 16);
        set.is_ok_and(|set| set & !wanted == 0)
    };
    let sets = ["CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd"];
    if status.field("NoNewPrivs") == "1" && sets.iter().all(|set| is_within(set)) {
        return Ok(());
    }
    Err(Error::Rights)
}
