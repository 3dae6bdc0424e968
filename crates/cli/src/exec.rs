//! `latlab exec`: a command inside a node, on pipes or at the person's terminal.

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;
use latlab_host::nodes::session::Command;

use crate::args::Exec;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::hosts::{self, record::Record};
use crate::{pipes, print, terminal};

pub fn run(args: &Exec) -> Outcome {
    need_root("exec", "it enters the node's namespaces")?;
    let dirs = Dirs::from_env();
    if let Some(host) = Record::remote_of(&dirs, &args.lab, &args.node)? {
        return hosts::exec::run(args, &host);
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    let mut command = Command::new(args.command.iter().cloned());
    command.cwd.clone_from(&args.directory);
    for pair in &args.env {
        let Some((name, value)) = pair.split_once('=').filter(|(n, _)| !n.is_empty()) else {
            return Err(Failure::new(
                format!("`{pair}` is not NAME=VALUE"),
                "for example --env LANG=C",
            ));
        };
        command.env.insert(name.into(), value.into());
    }
    if args.detach {
        let started = lab.detach(&args.node, &command).map_err(pipes::not_run)?;
        let output = started.output.display();
        return print::document(&format!("pid {}\noutput {output}\n", started.pid));
    }
    if args.tty {
        return terminal::run(&lab, &args.node, &command);
    }
    pipes::run(&lab, &args.node, &command, args.over_ssh)
}
