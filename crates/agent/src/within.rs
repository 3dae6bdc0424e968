//! Runs commands on the quiet CPUs of a tuned guest: in the cgroup that tuning made a partition. The agent itself
//! stays outside, on the housekeeping CPUs.
//!
//! Only in a guest that the host tuned: in another guest a cgroup of that name belongs to labs deployed inside it,
//! and a process in it would prevent child cgroups.
//!
//! The new process enters the cgroup before it executes the command, so that no part of the command runs elsewhere
//! and it can be pinned at once.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use latlab_wire::channel::TUNED_DIRECTORY;

/// As latlab's tuning names it.
const GROUP: &str = "/sys/fs/cgroup/latlab.isolated/cgroup.procs";

pub fn is_there() -> bool {
    Path::new(TUNED_DIRECTORY).exists() && Path::new(GROUP).exists()
}

/// Becomes the command; returns only with the reason why not.
pub fn run(program: &str, arguments: &[&str]) -> String {
    // A partition that went meanwhile is no reason not to run.
    if let Err(error) = fs::write(GROUP, "0") {
        if is_there() {
            return format!("enter {GROUP}: {error}");
        }
    }
    let mut command = match program {
        "latlab-agent" => Command::new("/proc/self/exe"),
        other => Command::new(other),
    };
    let error = command.arg0(program).args(arguments).exec();
    format!("run {program}: {error}")
}
