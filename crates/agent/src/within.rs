//! Runs commands on the quiet CPUs of a tuned guest: in the cgroup that tuning made a partition. The agent itself
//! stays outside, on the housekeeping CPUs.
//!
//! Only in a guest that the host tuned: in another guest a cgroup of that name belongs to labs deployed inside it,
//! and a process in it would prevent child cgroups.
//!
//! The new process enters the cgroup before it executes the command, so that no part of the command runs elsewhere
//! and it can be pinned at once. No program comes between, whose own status would stand for that of a missing command.

use std::ffi::CStr;
use std::path::Path;
use std::process::Command;

use latlab_wire::channel::TUNED_DIRECTORY;

use crate::os;

/// As latlab's tuning names it.
const GROUP: &CStr = c"/sys/fs/cgroup/latlab.isolated/cgroup.procs";

pub fn is_there() -> bool {
    let group = GROUP.to_str().map(Path::new);
    Path::new(TUNED_DIRECTORY).exists() && group.is_ok_and(Path::exists)
}

/// Has what this command starts run there.
pub fn start_there(command: &mut Command) {
    os::in_a_cgroup(command, GROUP);
}
