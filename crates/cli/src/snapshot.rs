//! `latlab snapshot` and `latlab restore`: a node's whole state in a directory, and back.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Lab, Step};

use crate::args::{Restore, Snapshot};
use crate::downloads::Lines;
use crate::failure::{Outcome, explain, need_root};
use crate::hosts::record::Record;
use crate::hosts::verbs;

pub fn snapshot(args: &Snapshot) -> Outcome {
    need_root("snapshot", "it reads the memory of nodes")?;
    let dirs = Dirs::from_env();
    if let Some(host) = Record::remote_of(&dirs, &args.lab, &args.node)? {
        let to = verbs::absolute(&host, &args.to)?;
        let mut words = vec!["snapshot", &args.lab, &args.node, "--to", to];
        words.extend(args.stop.then_some("--stop"));
        return verbs::pass_on(&host, &words, false);
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    let lines = Lines::default();
    let stood = lab
        .snapshot(&args.node, &args.to, args.stop, &|step| tell(&lines, step))
        .map_err(explain)?;
    let (node, dir) = (&args.node, args.to.display());
    let what = if args.stop {
        "saved and stopped"
    } else {
        "saved"
    };
    match stood {
        Some(stood) => {
            let stopped_ms = stood.lasted().as_secs_f64() * 1e3;
            println!("{what} node `{node}` in {dir}; it stood still for {stopped_ms:.1} ms");
        }
        None => println!("{what} node `{node}` in {dir}"),
    }
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &Restore) -> Outcome {
    need_root("restore", "it replaces the processes of nodes")?;
    let dirs = Dirs::from_env();
    if let Some(host) = Record::remote_of(&dirs, &args.lab, &args.node)? {
        let from = verbs::absolute(&host, &args.from)?;
        let words = ["restore", &args.lab, &args.node, "--from", from];
        return verbs::pass_on(&host, &words, false);
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    let lines = Lines::default();
    lab.restore(&args.node, &args.from, &|step| tell(&lines, step))
        .map_err(explain)?;
    println!("restored node `{}` from {}", args.node, args.from.display());
    Ok(ExitCode::SUCCESS)
}

pub fn tell(lines: &Lines, step: &Step<'_>) {
    if let Step::Preparing(text) = step {
        lines.tell(text);
    }
}
