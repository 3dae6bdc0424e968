//! Runs commands on the quiet processors of a tuned guest: in the control group that the tuning made a
//! partition of. The agent itself stays outside, on the processors that do everything else.
//!
//! Only where the guest is tuned from outside: a group of that name in another guest is of labs that somebody
//! deployed in it, and a process in it would keep groups from being made below it.
//!
//! It enters the group itself before it becomes the command, so that nothing of the command ever ran
//! elsewhere, and it can be pinned there at once.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use latlab_wire::channel::TUNED_DIRECTORY;

/// As latlab's tuning names it.
const GROUP: &str = "/sys/fs/cgroup/latlab.isolated/cgroup.procs";

/// Whether there is such a partition.
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
