//! Sockets of other processes (pidfd_getfd(2)).

use std::fs;
use std::os::fd::{OwnedFd, RawFd};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::process::Process;

/// Copies of a process's sockets, without those that cannot be reached.
#[must_use]
pub fn of(process: &Process) -> Vec<OwnedFd> {
    let directory = format!("/proc/{}/fd", process.id().pid);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sockets = entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let number: RawFd = entry.file_name().to_str()?.parse().ok()?;
        let is_socket = target.to_string_lossy().starts_with("socket:");
        is_socket.then(|| pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok())?
    });
    sockets.collect()
}
