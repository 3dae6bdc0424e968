//! `latlab pause` and `latlab resume`: nodes that stand still for a while.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Error, Lab};

use crate::args::Pause;
use crate::failure::{Outcome, explain, need_root};
use crate::hosts::verbs::Divided;

pub fn pause(args: &Pause) -> Outcome {
    each("pause", args, |lab, node| {
        lab.pause(node)?;
        println!("paused node `{node}`");
        Ok(())
    })
}

pub fn resume(args: &Pause) -> Outcome {
    each("resume", args, |lab, node| {
        match lab.resume(node)? {
            Some(told) => println!("{told}"),
            None => println!("resumed node `{node}`"),
        }
        Ok(())
    })
}

fn each(verb: &str, args: &Pause, act: impl Fn(&Lab, &str) -> Result<(), Error>) -> Outcome {
    need_root(verb, "it stops and starts the processes of nodes")?;
    let dirs = Dirs::from_env();
    let mut nodes = args.nodes.clone();
    if let Some(divided) = Divided::of(&dirs, &args.lab, &nodes)? {
        divided.ask(verb, &args.lab)?;
        let Some(here) = divided.here else {
            return Ok(ExitCode::SUCCESS);
        };
        nodes = here;
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    if nodes.is_empty() {
        let all = lab.plan().nodes.iter();
        let all = all.filter(|node| !node.kind().is_host());
        nodes = all.map(|node| node.name.clone()).collect();
    }
    // A name that is wrong is found before any node stops.
    for node in &nodes {
        lab.check_name(node).map_err(explain)?;
    }
    for node in &nodes {
        act(&lab, node).map_err(explain)?;
    }
    Ok(ExitCode::SUCCESS)
}
