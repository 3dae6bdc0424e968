//! Studies that tests run, and what they left in their run directories.

use std::fs;

use latlab_model::results::Trial;
use latlab_samples::RunDir;

use super::{Bench, Said};

/// Runs a study of this lab, whose lines are indented by two, and these measurements; its exit code is the caller's to
/// judge.
pub fn run(bench: &Bench, name: &str, lab: &str, measurements: &str) -> (Said, RunDir) {
    let text = format!("name: {name}\nlab:\n  {lab}measurements:\n{measurements}replicates: 1\n");
    let study = bench.file(name, &text);
    let runs = bench.root().join(format!("runs-{name}"));
    let said = bench.latlab(&["run", &study, "--runs", runs.to_str().unwrap()]);
    let made = fs::read_dir(&runs)
        .unwrap_or_else(|error| panic!("{error}: {said:#?}"))
        .next()
        .unwrap()
        .unwrap();
    (said, RunDir::open(made.path()).unwrap())
}

pub fn trial_of(run: &RunDir, measurement: &str) -> Trial {
    let manifest = run.read_manifest().unwrap();
    let planned = manifest
        .order
        .iter()
        .find(|trial| trial.cell == measurement);
    run.read_trial(planned.unwrap().trial).unwrap().unwrap()
}

pub fn read(run: &RunDir, name: &str) -> String {
    let path = run.root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The line of a run that tells why a cell failed.
#[track_caller]
pub fn failure<'s>(said: &'s Said, cell: &str) -> &'s str {
    let mut lines = said.err.lines();
    let found = lines.find(|line| line.contains(&format!("({cell}) failed: ")));
    found.unwrap_or_else(|| panic!("{cell}: {said:#?}"))
}
