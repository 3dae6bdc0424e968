//! Scripts on other hosts, by ssh(1): users have their keys, aliases and jump hosts there.

use std::process::Command;

pub use latlab_host::programs::quoted;

/// A shell's script on a host. A host that does not answer is noticed within a minute.
pub fn script(destination: &str, script: &str, options: &[&str]) -> Command {
    let mut ssh = Command::new("ssh");
    // The first one counts of an option that is given twice.
    ssh.args(options)
        .args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
        .args(["-o", "ServerAliveInterval=15"])
        .args(["--", destination])
        .arg(format!("exec sh -c {}", quoted(script)));
    ssh
}
