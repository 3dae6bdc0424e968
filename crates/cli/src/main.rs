//! The `latlab` command: one file per subcommand. It parses arguments and prints; the work is done in other crates.
//!
//! Exit codes: 0 success; 1 a failed measurement (a trial, a difference, a missing capability that was asked for), or a
//! conversion that leaves nodes or links out; 2 the input or the machine is at fault; 130 interrupted. With 3 a deployment
//! failed and could not be undone. `exec` passes on its command's code, with 126 and 127 for a command that cannot be run,
//! as shells do.

#[macro_use]
mod print;

mod adapt;
mod args;
mod bmc;
mod cache;
mod campaign;
mod clone;
mod compare;
mod completions;
mod conversion;
mod deploy;
mod destroy;
mod doctor;
mod downloads;
mod exec;
mod explain;
mod export;
mod fabric;
mod failure;
mod files;
mod format;
mod forward;
mod graph;
mod hosts;
mod image;
mod import;
mod inspect;
mod machine_file;
mod merge;
mod migrate;
mod noise;
mod overlay;
mod paper;
mod part;
mod pause;
mod pipes;
mod place;
mod profiles;
mod progress;
mod reboot;
mod report;
mod run;
mod serve;
mod shell;
mod signals;
mod snapshot;
mod ssh;
mod streams;
mod studies;
mod table;
mod terminal;
mod traffic;
mod tune;
mod validate;

use std::process::ExitCode;

use args::{Cli, Verb};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.verb {
        Verb::Doctor(a) => doctor::run(a),
        Verb::Validate(a) => validate::run(a),
        Verb::Graph(a) => graph::run(a),
        Verb::Place(a) => place::run(a),
        Verb::Deploy(a) => deploy::run(a),
        Verb::Inspect(a) => inspect::run(a),
        Verb::Exec(a) => exec::run(a),
        Verb::Shell(a) => shell::run(a),
        Verb::Pause(a) => pause::pause(a),
        Verb::Resume(a) => pause::resume(a),
        Verb::Migrate(a) => migrate::migrate(a),
        Verb::Clone(a) => clone::clone(a),
        Verb::Snapshot(a) => snapshot::snapshot(a),
        Verb::Restore(a) => snapshot::restore(a),
        Verb::Destroy(a) => destroy::run(a),
        Verb::Run(a) => run::run(a),
        Verb::Campaign(a) => campaign::run(a),
        Verb::Merge(a) => merge::run(a),
        Verb::Import(a) => import::run(a),
        Verb::Export(a) => export::run(a),
        Verb::Report(a) => report::run(a),
        Verb::Explain(a) => explain::run(a),
        Verb::Image(a) => image::run(a),
        Verb::Cache(a) => cache::run(a),
        Verb::Compare(a) => compare::run(a),
        Verb::Serve(a) => serve::run(a),
        Verb::Tune(a) => tune::run(a),
        Verb::Noise(a) => noise::run(a),
        Verb::Overlay(a) => overlay::run(a),
        Verb::Streams(a) => streams::run(a),
        Verb::Traffic(a) => traffic::run(a),
        Verb::Adapt(a) => adapt::run(a),
        Verb::Fabric(a) => fabric::run(a),
        Verb::Host(a) => bmc::run(a),
        Verb::Forward(a) => forward::run(a),
        Verb::Studies { name } => studies::run(name.as_deref()),
        Verb::Paper(a) => paper::run(a),
        Verb::Schema { document } => validate::schema(*document),
        Verb::HostKey => hosts::key::run(),
        Verb::Part(a) => part::run(a),
        Verb::Completions(a) => completions::run(a),
    };
    match result {
        Ok(code) => code,
        // A closed pipe is no failure: `latlab inspect | head -1`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{failure}");
            failure.code()
        }
    }
}
