//! A run in parts, merged, is the run that one latlab measures at once.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Bench, enter, tool};
use latlab_model::results::Part;
use latlab_samples::RunDir;
use serde_json::Value;

const STUDY: &str = "name: parted\nreplicates: 2\nlab:\n  name: NAME\n  topology:\n    \
    nodes: {a: {kind: native}, b: {kind: native}}\n    \
    links: [{type: veth, endpoints: [\"a:eth0\", \"b:eth0\"]}]\nfactors:\n  \
    topology.links.0.type: [veth, bridge]\nmeasurements:\n  \
    - {probe: rr, from: a, to: b, duration: 200ms}\n";

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The run directories below `runs`, oldest first.
fn runs_below(runs: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(runs)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    all
}

/// Measures a part; its run directory.
fn part(bench: &Bench, study: &str, part: &str) -> PathBuf {
    let runs = bench.root().join(part.replace('/', "-of-"));
    let said = bench.latlab(&[
        "run",
        study,
        "--runs",
        runs.to_str().unwrap(),
        "--part",
        part,
    ]);
    assert!(said.good().err.contains("2 trials"), "of four");
    runs_below(&runs).pop().unwrap()
}

#[test]
fn merged_parts_are_the_whole_run() {
    enter("merged_parts_are_the_whole_run", |bench| {
        let study = bench.file("parted", STUDY);
        let whole = bench.latlab(&["run", &study, "--dry-run"]).good().out;
        let halves = ["1/2", "2/2"].map(|part| {
            let shown = bench.latlab(&["run", &study, "--dry-run", "--part", part]);
            shown.good().out
        });
        assert_eq!(halves.concat(), whole, "in the order of the run");

        let parts = ["1/2", "2/2"].map(|number| part(bench, &study, number));
        let [first, second] = parts.each_ref().map(|path| path.to_str().unwrap());
        let runs = bench.root().join("merged");
        let runs = runs.to_str().unwrap();
        let said = bench.latlab(&["merge", first, "--runs", runs]);
        said.refused(1, "part 2 of 2 is missing", "--part 2/2");
        assert!(runs_below(Path::new(runs)).is_empty());

        let said = bench
            .latlab(&["merge", second, first, "--runs", runs])
            .good();
        assert!(said.out.contains("report: "), "{said:#?}");
        let merged = runs_below(Path::new(runs)).pop().unwrap();
        assert!(merged.join("report.html").exists());
        let manifest = read(&merged.join("manifest.json"));
        assert_eq!(manifest["state"]["state"], "complete");
        assert!(manifest.get("part").is_none());
        let summary = read(&merged.join("summary.json"));
        let cells = summary["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2);
        for cell in cells {
            assert_eq!(cell["replicates"], 2, "one of each part: {cell:#}");
        }

        limits_decide(bench, merged.to_str().unwrap());
        let whole_run = bench.latlab(&["merge", merged.to_str().unwrap(), "--runs", runs]);
        whole_run.refused(2, "is a whole run", "--part K/N");
        let said = bench.latlab(&["merge", first, first, second, "--runs", runs]);
        said.refused(2, "are both part 1", "only one of them");
        let said = bench.latlab(&["run", &study, "--part", "9/9"]);
        said.refused(2, "cannot be divided into 9 parts", "at most 4 parts");
        let said = bench.latlab(&["run", &study, "--part", "3/2"]);
        assert!(said.err.contains("for example 2/4"), "{said:#?}");
    });
}

/// A copy of a whole run as the directory of one of its parts.
fn divided(bench: &Bench, whole: &Path, number: u32, of: u32) -> PathBuf {
    let copy = bench.root().join(format!("divided-{number}"));
    let (from, to) = (whole.to_str().unwrap(), copy.to_str().unwrap());
    tool(&["cp", "-a", from, to]);
    // Made of the trials; a part has none.
    for file in ["summary.json", "report.html"] {
        fs::remove_file(copy.join(file)).unwrap();
    }
    let dir = RunDir::open(&copy).unwrap();
    let mut manifest = dir.read_manifest().unwrap();
    let size = u32::try_from(manifest.order.len()).unwrap() / of;
    let part = Part {
        number,
        of,
        machine: "here".into(),
        first: (number - 1) * size + 1,
        last: number * size,
    };
    for planned in &manifest.order {
        if !part.has(planned.trial) {
            fs::remove_dir_all(dir.trial_dir(planned.trial)).unwrap();
        }
    }
    manifest.part = Some(part);
    manifest.checksums = dir.checksums().unwrap();
    dir.write_manifest(&manifest).unwrap();
    copy
}

#[test]
fn the_summary_of_merged_parts_is_that_of_the_same_trials_in_one_run() {
    enter(
        "the_summary_of_merged_parts_is_that_of_the_same_trials_in_one_run",
        |bench| {
            let study = bench.file("parted", STUDY);
            let runs = bench.root().join("whole");
            let words = ["run", &study, "--runs", runs.to_str().unwrap()];
            bench.latlab(&words).good();
            let whole = runs_below(&runs).pop().unwrap();
            let parts = [2, 1].map(|number| divided(bench, &whole, number, 2));
            let [second, first] = parts.each_ref().map(|path| path.to_str().unwrap());
            let runs = bench.root().join("merged");
            let words = ["merge", second, first, "--runs", runs.to_str().unwrap()];
            bench.latlab(&words).good();
            let merged = runs_below(&runs).pop().unwrap();
            let mut summaries = [&whole, &merged].map(|run| read(&run.join("summary.json")));
            for summary in &mut summaries {
                assert_ne!(summary["id"].take(), Value::Null);
            }
            let [whole, merged] = summaries;
            assert_eq!(whole["cells"].as_array().unwrap().len(), 2);
            assert_eq!(merged, whole);
        },
    );
}

/// With `--fail-if`, limits decide about the exit code: each ratio of a run to itself is 1.
fn limits_decide(bench: &Bench, run: &str) {
    let compare = |limits: &[&str]| {
        let options = limits.iter().flat_map(|limit| ["--fail-if", limit]);
        let words: Vec<&str> = ["compare", run, run].into_iter().chain(options).collect();
        bench.latlab(&words)
    };
    compare(&["median > 1.05", "p99 > 1.05"]).good();
    let said = compare(&["median > 1.05", "median < 1.5"]);
    assert_eq!(said.code, 1, "{said:#?}");
    assert_eq!(
        said.err.matches("beyond its limit: ").count(),
        2,
        "{said:#?}"
    );
    compare(&["p99.9999 > 1"]).refused(2, "no cell has this quantity", "measure longer");
    let said = compare(&["p99"]);
    assert!(
        said.code == 2 && said.err.contains("'p99 > 1.10'"),
        "{said:#?}"
    );
}
