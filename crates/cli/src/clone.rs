//! `latlab clone`: VMs of a lab become copies of one that runs.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;

use crate::args::Clone;
use crate::downloads::Lines;
use crate::failure::{Outcome, explain, need_root};
use crate::snapshot::tell;

pub fn clone(args: &Clone) -> Outcome {
    need_root("clone", "it replaces the processes of nodes")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let lines = Lines::default();
    let node = &args.node;
    let stood = lab.copy(node, &args.copies, &|step| tell(&lines, step));
    let stood = stood.map_err(explain)?;
    for copy in &args.copies {
        println!("node `{copy}` is a copy of `{node}`");
    }
    if let Some(stood) = stood {
        let stopped_ms = stood.lasted().as_secs_f64() * 1e3;
        println!("`{node}` stood still for {stopped_ms:.1} ms");
    }
    Ok(ExitCode::SUCCESS)
}
