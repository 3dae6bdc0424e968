//! The machine on which latlab runs, which it does not switch off.

use std::fs;
use std::process::Stdio;

use latlab_bmc::{Controller, is_this_machine};
use latlab_model::spec::ManagedHost;

use crate::failure::Failure;
use crate::ssh;

/// Differs between machines, and between boots of one.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Refuses a host that is this machine: by the UUID that its controller tells, or by the boot that its `ssh` reaches.
pub fn refuse(host: &ManagedHost, controller: &dyn Controller) -> Result<(), Failure> {
    let by_ssh = || {
        let ssh = host.ssh.as_ref()?;
        Some(has_this_boot(ssh))
    };
    if !is_this_machine(controller) && !by_ssh().unwrap_or(false) {
        return Ok(());
    }
    let name = host.name.value.as_str();
    let message = format!("host `{name}` is the machine on which latlab runs");
    Err(Failure::new(message, "switch it from another machine"))
}

/// Whether the system that answers at an ssh destination is this one. A host that is off, or hangs, does not answer.
fn has_this_boot(destination: &str) -> bool {
    let own = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let quick = ["-o", "ConnectTimeout=3"];
    let mut command = ssh::script(destination, &format!("cat {BOOT_ID}"), &quick);
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| !own.is_empty() && output.stdout == own.as_bytes())
}
