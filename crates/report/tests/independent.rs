//! The numbers of the summary against a program that shares no code with latlab.
//!
//! Needs a Python with DuckDB or pyarrow, so it runs where `LATLAB_TEST_PYTHON` names one; `./test`
//! makes a virtual environment and sets it. Set, everything missing is an error.

mod synthetic;

use std::path::Path;
use std::process::Command;

use synthetic::{Plan, Scratch};

#[test]
fn an_independent_program_finds_the_same_percentiles() {
    let Some(python) = std::env::var_os("LATLAB_TEST_PYTHON") else {
        eprintln!("LATLAB_TEST_PYTHON is not set: not checked against an independent program");
        return;
    };
    let scratch = Scratch::new("independent");
    let plan = Plan {
        faults: true,
        samples: 12_345,
        replicates: 3,
        ..Plan::small()
    };
    let run = plan.write(scratch.path().join("run"));
    latlab_report::conclude(&run).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/independent.py");
    let output = Command::new(&python)
        .arg(&script)
        .arg(run.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("numbers of 12 cells agree"), "{said}");

    // The check must be able to fail: a percentile off by a millionth is found.
    let mut summary = run.read_summary().unwrap();
    let latency = summary.cells[0].latency.as_mut().unwrap();
    latency.quantiles[2].value_ns = latency.quantiles[2].value_ns.map(|value| value * 1.000_001);
    run.write_summary(&summary).unwrap();
    let output = Command::new(&python)
        .arg(&script)
        .arg(run.root())
        .output()
        .unwrap();
    assert!(!output.status.success());
}

#[test]
fn the_python_package_computes_the_figures_of_the_summary() {
    let Some(python) = std::env::var_os("LATLAB_TEST_PYTHON") else {
        eprintln!("LATLAB_TEST_PYTHON is not set: the Python package is not tested");
        return;
    };
    let scratch = Scratch::new("package");
    // Up to six replicates every resample is enumerated; beyond, they are drawn.
    let runs = [3, 8].map(|replicates| {
        let plan = Plan {
            faults: true,
            samples: 12_345,
            replicates,
            measurements: vec!["rr-udp", "packets", "stream-tcp"],
            ..Plan::small()
        };
        let run = plan.write(scratch.path().join(format!("run{replicates}")));
        latlab_report::conclude(&run).unwrap();
        run.root().display().to_string()
    });
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests");
    let output = Command::new(&python)
        .args([
            "-B",
            "-m",
            "unittest",
            "discover",
            "-p",
            "test_run.py",
            "-s",
        ])
        .arg(&package)
        .env("LATLAB_TEST_RUNS", runs.join(":"))
        .env("MPLBACKEND", "agg")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ran 11 tests"), "{said}");
}
