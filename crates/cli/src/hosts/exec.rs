//! A command or a shell in a node on another host.

use std::os::unix::process::CommandExt;

use super::record::Host;
use crate::args::{Exec, Shell};
use crate::failure::{Failure, Outcome};
use crate::terminal;

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
    words.extend([args.lab.as_str(), args.node.as_str(), "--"]);
    words.extend(args.command.iter().map(String::as_str));
    become_ssh(host, &words, args.tty)
}

/// Runs a login shell. Returns only if ssh cannot be started.
pub fn shell(args: &Shell, host: &Host) -> Outcome {
    become_ssh(
        host,
        &["shell", &args.lab, &args.node],
        terminal::is_there(),
    )
}

fn become_ssh(host: &Host, words: &[&str], with_terminal: bool) -> Outcome {
    let error = host.attached(words, with_terminal).exec();
    Err(Failure::of(error, "install ssh: openssh-client"))
}
