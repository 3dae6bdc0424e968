//! `latlab migrate`: a VM or a container moves while it runs.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Lab, Step};
use latlab_model::units::Bytes;

use crate::args::Migrate;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::hosts::record::Record;
use crate::hosts::verbs;

pub fn migrate(args: &Migrate) -> Outcome {
    need_root("migrate", "it replaces the processes of nodes")?;
    let dirs = Dirs::from_env();
    let to = args.to.as_deref().unwrap_or(&args.node);
    if let Some(record) = Record::read(&dirs, &args.lab)? {
        let host = record.host_of(&args.node)?;
        let there = record.host_of(to)?;
        if there.name != host.name {
            let message = format!(
                "node `{}` is on host `{}`, and `{to}` on host `{}`",
                args.node, host.name, there.name
            );
            return Err(Failure::new(message, "nodes move within a host so far"));
        }
        if host.ssh.is_some() {
            let mut words = vec!["migrate", &args.lab, &args.node];
            words.extend(args.to.iter().flat_map(|to| ["--to", to]));
            return verbs::pass_on(host, &words, false);
        }
    }
    let lab = Lab::open(&dirs, &args.lab).map_err(explain)?;
    let told = |step: &Step<'_>| {
        if let Step::Preparing(text) = step {
            eprintln!("{text}");
        }
    };
    let moved = lab.migrate(&args.node, to, &told).map_err(explain)?;
    let (node, bytes, rounds) = (&args.node, Bytes(moved.bytes), moved.rounds);
    let total = moved.total.as_millis();
    match (
        moved.downtime.map(|downtime| downtime.as_millis()),
        moved.stood,
    ) {
        (Some(downtime), _) => println!(
            "moved node `{node}` in {total} ms; QEMU says that it stood still for {downtime} ms and that {bytes} were \
             copied in {rounds} passes"
        ),
        (None, Some(stood)) => println!(
            "moved node `{node}` in {total} ms; it stood still for {} ms, with {bytes} of memory",
            stood.lasted().as_millis()
        ),
        (None, None) => println!("moved node `{node}` in {total} ms"),
    }
    if moved.was_forced {
        println!("it wrote faster than it was copied, so it was stopped for the rest");
    }
    Ok(ExitCode::SUCCESS)
}
