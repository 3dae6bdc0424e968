//! A command or a shell in a node on another host. latlab becomes ssh, so its connection ends with a signal to latlab.

use super::record::Host;
use super::verbs::pass_on;
use crate::args::{Exec, Shell};
use crate::failure::Outcome;
use crate::terminal;

/// Without a terminal, sshd ends nothing when the connection ends: latlab there does.
const OVER_SSH: &str = "--over-ssh";

/// Runs a command. Returns only if ssh cannot be started.
pub fn run(args: &Exec, host: &Host) -> Outcome {
    let mut words = vec!["exec"];
    for pair in &args.env {
        words.extend(["--env", pair]);
    }
    if let Some(directory) = &args.directory {
        words.extend(["--directory", directory]);
    }
    words.extend(args.tty.then_some("--tty"));
    words.extend(args.detach.then_some("--detach"));
    words.extend((!args.tty && !args.detach).then_some(OVER_SSH));
    words.extend([args.lab.as_str(), args.node.as_str(), "--"]);
    words.extend(args.command.iter().map(String::as_str));
    pass_on(host, &words, args.tty)
}

/// Runs a login shell. Returns only if ssh cannot be started.
pub fn shell(args: &Shell, host: &Host) -> Outcome {
    let has_terminal = terminal::is_there();
    let mut words = vec!["shell", args.lab.as_str(), args.node.as_str()];
    words.extend((!has_terminal).then_some(OVER_SSH));
    pass_on(host, &words, has_terminal)
}
