//! `latlab snapshot` and `latlab restore`: a node's whole state in a directory, and back.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Lab, Step};

use crate::args::{Restore, Snapshot};
use crate::failure::{Outcome, explain, need_root};

pub fn snapshot(args: &Snapshot) -> Outcome {
    need_root("snapshot", "it reads the memory of nodes")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let stopped = lab.snapshot(&args.node, &args.to).map_err(explain)?;
    let (node, dir) = (&args.node, args.to.display());
    let stopped_ms = stopped.as_secs_f64() * 1e3;
    println!("saved node `{node}` in {dir}; it stood still for {stopped_ms:.1} ms");
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &Restore) -> Outcome {
    need_root("restore", "it replaces the processes of nodes")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let told = |step: &Step<'_>| {
        if let Step::Preparing(text) = step {
            eprintln!("{text}");
        }
    };
    lab.restore(&args.node, &args.from, &told)
        .map_err(explain)?;
    println!("restored node `{}` from {}", args.node, args.from.display());
    Ok(ExitCode::SUCCESS)
}
