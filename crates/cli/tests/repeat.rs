//! A trial that others disturbed is repeated, and its discarded attempt is kept and counted. The load is a busy
//! process at SCHED_FIFO on the nodes' CPU, until the first attempt is discarded.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Bench, enter, finished, until, whole};
use serde_json::Value;

const STUDY: &str = "name: disturbed\nRETRIESreplicates: 1\nlab:\n  name: NAME\n  topology:\n    \
    defaults: {kind: native, cpuset: \"1\"}\n    nodes: {a: {}, b: {}}\n    \
    links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\nmeasurements:\n  \
    - {probe: rr, from: a, to: b, duration: 1s}\n";

/// A busy process, ended when this is dropped.
struct Load(Child);

impl Load {
    fn begin() -> Load {
        let mut command = Command::new("timeout");
        command.args(["120", "taskset", "-c", "1", "chrt", "-f", "1"]);
        command.args(["sh", "-c", "while :; do :; done"]);
        Load(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // `timeout` hands it on to what it runs.
        common::signal(self.0.id(), "TERM");
        self.0.wait().unwrap();
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The only run below `runs`, once it is there.
fn run_below(runs: &Path) -> Option<PathBuf> {
    Some(fs::read_dir(runs).ok()?.next()?.ok()?.path())
}

#[test]
fn a_disturbed_trial_is_repeated_and_its_attempt_kept() {
    enter(
        "a_disturbed_trial_is_repeated_and_its_attempt_kept",
        |bench| {
            if whole() {
                is_repeated(bench, "file", "retries: 1\n", &[]);
            }
            // The flag counts instead of what the study says, and keeps to the same bounds.
            is_repeated(bench, "flag", "retries: 0\n", &["--retries", "1"]);
            let study = bench.file("disturbed", &STUDY.replace("RETRIES", ""));
            let said = bench.latlab(&["run", &study, "--retries", "11"]);
            said.refused(2, "--retries is 11", "from 0 to 10");
        },
    );
}

/// Runs the study, with these words in its file and on the command line, until its trial was repeated.
fn is_repeated(bench: &Bench, runs: &str, words: &str, flags: &[&str]) {
    let runs = bench.root().join(runs);
    let study = bench.file("disturbed", &STUDY.replace("RETRIES", words));
    let load = Load::begin();
    let mut run = bench.command(&["run", &study, "--runs", runs.to_str().unwrap()]);
    run.args(flags);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    let attempt = || Some(run_below(&runs)?.join("trials/0001-discarded-1/trial.json"));
    until("an attempt is discarded", || {
        attempt().is_some_and(|path| path.exists())
    });
    drop(load);
    let said = finished(run).good();
    assert!(said.out.contains("+ some trials repeated"), "{said:#?}");
    let dir = run_below(&runs).unwrap();
    let discarded = read(&attempt().unwrap());
    assert_eq!(discarded["discarded"], true);
    let failed = |check: &Value| {
        check["passed"] == false
            && ["steal", "foreign-load"]
                .iter()
                .any(|n| check["name"] == *n)
    };
    assert!(
        discarded["checks"].as_array().unwrap().iter().any(failed),
        "{discarded:#}"
    );
    let samples = discarded["samples"].as_str().unwrap();
    assert_eq!(samples, "trials/0001-discarded-1/samples.parquet");
    assert!(fs::metadata(dir.join(samples)).unwrap().len() > 0);
    let last = read(&dir.join("trials/0001/trial.json"));
    assert_eq!(
        (&last["repeats"], &last["discarded"]),
        (&1.into(), &Value::Null)
    );
    let sums = &read(&dir.join("manifest.json"))["checksums"];
    assert!(sums[samples].is_string() && sums["trials/0001/trial.json"].is_string());
    let summary = read(&dir.join("summary.json"));
    assert_eq!(summary["cells"][0]["repeated"], 1);
    assert_eq!(summary["cells"][0]["replicates"], 1);
    let codes = summary["notes"].as_array().unwrap().iter();
    let codes: Vec<&str> = codes.filter_map(|note| note["code"].as_str()).collect();
    assert!(
        codes.contains(&"repeated") && !codes.contains(&"damaged"),
        "{codes:?}"
    );
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("1 attempt discarded"));
}
