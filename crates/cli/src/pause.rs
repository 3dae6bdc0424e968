//! `latlab pause` and `latlab resume`: nodes that stand still for a while.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Error, Lab};

use crate::args::Pause;
use crate::failure::{Outcome, explain, need_root};

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
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let nodes = if args.nodes.is_empty() {
        let nodes = lab.plan().nodes.iter();
        let nodes = nodes.filter(|node| !node.kind().is_host());
        nodes.map(|node| node.name.clone()).collect()
    } else {
        args.nodes.clone()
    };
    // A name that is wrong is found before any node stops.
    for node in &nodes {
        lab.processes(node).map_err(explain)?;
    }
    for node in &nodes {
        act(&lab, node).map_err(explain)?;
    }
    Ok(ExitCode::SUCCESS)
}
