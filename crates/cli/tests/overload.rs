//! Results of an overloaded machine are marked. The load is stress-ng on every CPU for the whole run.

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};

use common::study::{self, failure};
use common::{Bench, enter, tool, until};
use serde_json::Value;

/// stress-ng on every CPU, ended with its workers when this is dropped.
struct Load(Child);

impl Load {
    fn begin() -> Load {
        // `--timeout` in case this process dies before it can end the load.
        let mut command = Command::new("stress-ng");
        command.args(["--cpu", "0", "--timeout", "120", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let load = Load(command.spawn().expect("stress-ng is installed by ./test"));
        let workers = format!("/proc/{0}/task/{0}/children", load.0.id());
        until("stress-ng has workers", || {
            fs::read_to_string(&workers).is_ok_and(|pids| !pids.is_empty())
        });
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        tool(&["kill", &self.0.id().to_string()]);
        self.0.wait().unwrap();
    }
}

#[test]
fn a_run_beside_stress_ng_is_marked_overloaded() {
    enter("a_run_beside_stress_ng_is_marked_overloaded", |bench| {
        let study = "name: beside\nlab:\n  name: NAME\n  topology:\n    \
            nodes: {a: {kind: native}, b: {kind: container}}\n    \
            links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\nmeasurements:\n  \
            - {name: rr, probe: rr, from: a, to: b, duration: 300ms}\n  \
            - {name: packets, probe: packets, from: a, to: b, duration: 300ms}\nreplicates: 3\n";
        let study = bench.file("beside", study);
        let load = Load::begin();
        let summary = run(bench, &study);
        drop(load);
        let note = summary["notes"].as_array().unwrap().iter();
        let note = note.clone().find(|note| note["code"] == "overloaded");
        let said = note.and_then(|note| note["text"].as_str());
        assert!(
            said.is_some_and(|t| t.contains("did not keep up in 6 of 6 trials")),
            "{said:?}"
        );
        // Its workers are called after what they do.
        assert!(
            said.is_some_and(|t| t.contains("Beside the lab, `stress-ng")),
            "{said:?}"
        );
        for cell in summary["cells"].as_array().unwrap() {
            assert_eq!(cell["overloaded"], 3, "{cell:#}");
        }
    });
}

fn run(bench: &Bench, study: &str) -> Value {
    let runs = bench.root().join("runs");
    bench
        .latlab(&["run", study, "--runs", runs.to_str().unwrap()])
        .good();
    let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn noise_that_ends_within_the_window_fails_the_trial() {
    enter(
        "noise_that_ends_within_the_window_fails_the_trial",
        |bench| {
            let lab = "name: NAME\n  topology:\n    nodes: {a: {kind: native}, b: {kind: native}}\n    \
            links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";
            let measurement = "  - {name: rr, probe: rr, from: a, to: b, duration: 2s, noise: stress-ng --cpu 1 --cpu-ops 1}\n";
            let (said, _) = study::run(bench, "short", lab, measurement);
            assert_eq!(said.code, 1, "{said:#?}");
            let line = failure(&said, "rr");
            assert!(
                line.contains("stress-ng ended before the window did"),
                "{line}"
            );
        },
    );
}
