//! `latlab clone`: VMs of a lab become copies of one that runs.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;

use crate::args::Clone;
use crate::downloads::Lines;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::hosts::record::Record;
use crate::hosts::verbs;
use crate::snapshot::tell;

pub fn clone(args: &Clone) -> Outcome {
    need_root("clone", "it replaces the processes of nodes")?;
    let dirs = Dirs::from_env();
    if let Some(record) = Record::read(&dirs, &args.lab)? {
        let host = record.host_of(&args.node)?;
        for copy in &args.copies {
            let there = record.host_of(copy)?;
            if there.name != host.name {
                let message = format!("node `{copy}` is on host `{}`", there.name);
                let hint = format!("copies of `{}` are on its host, `{}`", args.node, host.name);
                return Err(Failure::new(message, hint));
            }
        }
        if host.ssh.is_some() {
            let mut words = vec!["clone", &args.lab, &args.node];
            words.extend(args.copies.iter().map(String::as_str));
            return verbs::pass_on(host, &words, false);
        }
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
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
