//! `latlab merge`: the parts of a run as one run. Needs neither root nor the measuring machines.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use latlab_measure::run::claim;
use latlab_samples::merge::{MergeError, Parts, numbers};

use crate::args::Merge;
use crate::campaign;
use crate::failure::{Failure, Hint, MEASURED_FAILED, Outcome};
use crate::report;

pub fn run(args: &Merge) -> Outcome {
    let parts = Parts::open(&run_directories(&args.parts)?).map_err(refused)?;
    for path in parts.passed_over() {
        eprintln!(
            "latlab: {} is passed over: its part is there whole",
            path.display()
        );
    }
    if !args.incomplete {
        must_be_whole(&parts, campaign_of(&args.parts))?;
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

/// The run directories: those of a campaign in the place of its own.
fn run_directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut directories = Vec::new();
    for path in paths {
        let Some(parts) = campaign::parts_of(path)? else {
            directories.push(path.clone());
            continue;
        };
        // A part that is just beginning has no manifest yet.
        let has_begun = |path: &PathBuf| path.join("manifest.json").exists();
        directories.extend(parts.into_iter().filter(has_begun));
    }
    match directories.is_empty() {
        true => Err(Failure::new(
            "no part is measured yet",
            "`latlab campaign status` shows how far the campaign is",
        )),
        false => Ok(directories),
    }
}

/// The campaign's directory, where one is merged.
fn campaign_of(paths: &[PathBuf]) -> Option<&Path> {
    match paths {
        [path] if matches!(campaign::parts_of(path), Ok(Some(_))) => Some(path),
        _ => None,
    }
}

fn must_be_whole(parts: &Parts, campaign: Option<&Path>) -> Result<(), Failure> {
    let of = parts.of();
    let failed = |message: String, again: &str, number: u32| {
        let how = match campaign {
            Some(path) => format!("latlab campaign resume {}", path.display()),
            None => format!("latlab run … --part {number}/{of}"),
        };
        let hint = format!("measure it{again} with `{how}`, or merge with --incomplete");
        Err(Failure::new(message, hint).with_code(Some(MEASURED_FAILED)))
    };
    if let Some(first) = parts.missing().first() {
        let missing = numbers(&parts.missing());
        return failed(format!("part {missing} of {of} is missing"), "", *first);
    }
    match parts.unfinished().first() {
        Some((number, reason)) => failed(
            format!("part {number} of {of} is incomplete: {reason}"),
            " again",
            *number,
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
        MergeError::Twice { .. } => {
            "name only one of them; of a campaign, move one out of its `parts`"
        }
        MergeError::Stranger { .. } | MergeError::Odd { .. } | MergeError::Damaged { .. } => {
            "copy the run directory again"
        }
    };
    Failure::of(error, hint)
}
