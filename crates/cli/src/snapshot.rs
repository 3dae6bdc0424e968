//! `latlab snapshot` and `latlab restore`: a node kept in a directory, and started again from it.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Keep, Lab};

use crate::args::{Restore, Snapshot};
use crate::downloads::told;
use crate::failure::{Outcome, explain, need_root};

pub fn snapshot(args: &Snapshot) -> Outcome {
    need_root("snapshot", "it reads the memory of the node's processes")?;
    let mut lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let mut progress = told();
    let mut keep = Keep {
        stop: args.stop,
        progress: &mut progress,
    };
    lab.snapshot(&args.node, &args.to, &mut keep)
        .map_err(explain)?;
    let what = if args.stop { "stopped" } else { "kept" };
    println!("{what} node `{}` in {}", args.node, args.to.display());
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &Restore) -> Outcome {
    need_root("restore", "it starts the node's processes")?;
    let mut lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    lab.restore(&args.node, &args.from, &mut told())
        .map_err(explain)?;
    println!("restored node `{}` from {}", args.node, args.from.display());
    Ok(ExitCode::SUCCESS)
}
