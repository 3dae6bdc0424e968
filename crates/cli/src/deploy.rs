//! `latlab deploy`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{self, Lab};
use latlab_model::plan::Plan;

use crate::args::Deploy;
use crate::failure::{Failure, INTERRUPTED, Outcome, explain, need_root};
use crate::files::{self, Machine, PartOf, Source};
use crate::{hosts, inspect, print, progress, signals};

pub fn run(args: &Deploy) -> Outcome {
    let source = Source::read(&args.lab)?;
    source.must_be_study(false)?;
    if !args.dry_run {
        // Before planning, because without root many of the machine's capabilities seem missing.
        need_root("deploy", "it creates network namespaces, links and cgroups")?;
    }
    let plan = match &args.host {
        Some(host) => plan_part(args, &source, host)?,
        None => {
            let lab = files::read_lab(&source, !args.no_isolation)?;
            if !lab.hosts.is_empty() {
                return hosts::deploy::run(args, &source, &lab);
            }
            files::plan_read(&source, &lab, Machine::Here)?
        }
    };
    if args.dry_run {
        return print::document(&format!("{:#}\n", serde_json::json!(plan)));
    }
    let dirs = Dirs::from_env();
    let stop = signals::stop_flag()?;
    let template = "{spinner} {pos}/{len} nodes  {wide_msg}";
    let bar = progress::styled(plan.nodes.len(), template);
    bar.enable_steady_tick(Duration::from_millis(100));
    let shown = Mutex::new(());
    let tell = |step: &lab::Step<'_>| {
        let _one_at_a_time = shown.lock();
        bar.set_message(step.to_string());
        bar.set_position(step.nodes_ready() as u64);
    };
    let options = lab::Options {
        keep: args.keep,
        workers: args.workers,
        file: std::fs::canonicalize(&args.lab).ok(),
        stop: Some(&stop),
        progress: Some(&tell),
    };
    let deployed = Lab::deploy(&dirs, &plan, &options);
    bar.finish_and_clear();
    let lab = deployed.map_err(|e| {
        let interrupted = matches!(e, lab::Error::Interrupted(_));
        let mut failure = explain(e);
        if args.keep && lab::exists(&dirs, &plan.lab) {
            let lab = &plan.lab;
            failure = failure.kept(&format!(
                "inspect it with `latlab exec {lab} NODE -- sh` and in {}; then `latlab destroy {lab}`",
                dirs.run(lab).join("nodes").display()
            ));
        }
        failure.with_code(interrupted.then_some(INTERRUPTED))
    })?;
    inspect::print(&lab.rows(), args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Plans this machine's part of a lab on several.
fn plan_part(args: &Deploy, source: &Source, host: &str) -> Result<Plan, Failure> {
    let part = PartOf {
        host,
        keys: &args.peer_key.iter().cloned().collect(),
        places: &args.place.iter().cloned().collect(),
    };
    Ok(files::planned_part(source, &part, !args.no_isolation, &[])?.plan)
}
