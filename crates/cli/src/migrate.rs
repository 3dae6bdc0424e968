//! `latlab migrate`: a VM or a container moves while it runs.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{Lab, Step};
use latlab_model::units::Bytes;

use crate::args::Migrate;
use crate::failure::{Outcome, explain, need_root};

pub fn migrate(args: &Migrate) -> Outcome {
    need_root("migrate", "it replaces the processes of nodes")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let told = |step: &Step<'_>| {
        if let Step::Preparing(text) = step {
            eprintln!("{text}");
        }
    };
    let to = args.to.as_deref().unwrap_or(&args.node);
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
