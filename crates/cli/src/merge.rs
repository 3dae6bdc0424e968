//! `latlab merge`: the parts of a run as one run. Needs neither root nor the measuring machines.

use std::process::ExitCode;

use latlab_measure::run::claim;
use latlab_samples::merge::{MergeError, Parts, numbers};

use crate::args::Merge;
use crate::failure::{Failure, Hint, MEASURED_FAILED, Outcome};
use crate::report;

pub fn run(args: &Merge) -> Outcome {
    let parts = Parts::open(&args.parts).map_err(refused)?;
    for path in parts.passed_over() {
        eprintln!(
            "latlab: {} is passed over: its part is there whole",
            path.display()
        );
    }
    if !args.incomplete {
        must_be_whole(&parts)?;
    }
    let (id, dir) = claim(&args.runs, parts.study())
        .hint("name a directory that can be written with --runs")?;
    let merged = parts.merge_into(&dir, id);
    merged.map_err(|error| {
        // Nothing is lost: the parts are where they were.
        let _ = std::fs::remove_dir_all(dir.root());
        refused(error)
    })?;
    report::write_and_print(&dir, args.format)?;
    Ok(ExitCode::SUCCESS)
}

fn must_be_whole(parts: &Parts) -> Result<(), Failure> {
    let failed = |message: String, hint: String| {
        Err(Failure::new(message, hint).with_code(Some(MEASURED_FAILED)))
    };
    let of = parts.of();
    if let Some(first) = parts.missing().first() {
        let missing = numbers(&parts.missing());
        return failed(
            format!("part {missing} of {of} is missing"),
            format!(
                "measure it with `latlab run … --part {first}/{of}`, or merge with --incomplete"
            ),
        );
    }
    match parts.unfinished().first() {
        Some((number, reason)) => failed(
            format!("part {number} of {of} is incomplete: {reason}"),
            format!(
                "measure it again with `latlab run … --part {number}/{of}`, or merge with --incomplete"
            ),
        ),
        None => Ok(()),
    }
}

fn refused(error: MergeError) -> Failure {
    let hint = match &error {
        MergeError::RunDir(_) => "name directories that `latlab run --part` made",
        MergeError::Whole { .. } => {
            "`latlab run --part K/N` measures a part; `latlab compare` compares whole runs"
        }
        MergeError::Different { .. } => "run all parts with the same file and the same options",
        MergeError::Twice { .. } => "name only one of them",
        MergeError::Stranger { .. } | MergeError::Odd { .. } | MergeError::Damaged { .. } => {
            "copy the run directory again"
        }
    };
    Failure::of(error, hint)
}
