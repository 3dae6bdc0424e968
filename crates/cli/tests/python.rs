//! The Python package and its notebooks, on a run of every study in `studies/`.
//!
//! Runs where `LATLAB_TEST_PYTHON` names a Python with the package; `scripts/run-tests python` sets it. Set, everything
//! missing is an error.

mod made_up;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latlab_model::spec::{LabSource, Study};
use made_up::Runs;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All studies that have their lab with them, as those inside the program do.
fn studies() -> BTreeSet<String> {
    let files = fs::read_dir(repository().join("studies")).unwrap();
    let studies =
        files.map(|file| Study::parse(&fs::read_to_string(file.unwrap().path()).unwrap()));
    let own = studies
        .map(Result::unwrap)
        .filter(|study| matches!(study.lab, LabSource::Inline(_)));
    own.map(|study| study.name.value.clone()).collect()
}

#[test]
fn the_package_computes_the_figures_of_every_study_and_every_notebook_runs() {
    let Some(python) = std::env::var_os("LATLAB_TEST_PYTHON") else {
        eprintln!("LATLAB_TEST_PYTHON is not set: the Python package is not tested");
        return;
    };
    let directory = Runs::new("python");
    let runs = studies().into_iter().map(|name| {
        // Its paper has deviations between trials, which need five of them.
        let replicates = if name == "welch2015" { 5 } else { 3 };
        directory.write(&name, replicates)
    });
    let runs: Vec<String> = runs.map(|run| run.root().display().to_string()).collect();
    assert!(runs.len() > 20, "{runs:?}");
    let output = Command::new(&python)
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(repository().join("python/tests"))
        .env("LATLAB_TEST_RUNS", runs.join(":"))
        .env("LATLAB_RUNS", directory.path())
        .env("MPLBACKEND", "agg")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ran 19 tests"), "{said}");
}
