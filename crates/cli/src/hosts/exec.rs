//! A command in a node on another host.

use std::os::unix::process::CommandExt;

use super::record::Host;
use crate::args::Exec;
use crate::failure::{Failure, Outcome};

/// Replaces this process by ssh. Returns only if that fails.
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
    let error = host.attached(&words, args.tty).exec();
    Err(Failure::of(error, "install ssh: openssh-client"))
}
