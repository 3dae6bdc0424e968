//! `latlab shell`: a login shell in a node, at the person's terminal if there is one.

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;
use latlab_host::nodes::session::Command;

use crate::args::Shell;
use crate::failure::{Outcome, explain, need_root};
use crate::hosts::{self, record::Record};
use crate::{pipes, terminal};

/// The image decides which shells there are.
const LOGIN: &str = "if [ -x /bin/bash ]; then exec /bin/bash -l; fi; exec /bin/sh -l";

pub fn run(args: &Shell) -> Outcome {
    need_root("shell", "it enters the node's namespaces")?;
    let dirs = Dirs::from_env();
    if let Some(host) = Record::remote_of(&dirs, &args.lab, &args.node)? {
        return hosts::exec::shell(args, &host);
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    let command = Command::shell(LOGIN);
    if terminal::is_there() {
        terminal::run(&lab, &args.node, &command)
    } else {
        pipes::run(&lab, &args.node, &command, args.over_ssh)
    }
}
