//! `count:` makes several nodes of one, and results tell how long they took to start.

mod common;

use common::enter;
use latlab_samples::RunDir;

const STUDY: &str = "name: starts\nlab:\n  name: NAME\n  topology:\n    nodes: {a: {kind: native}, b: {kind: container, \
    count: 3}}\n    links: [{type: bridge, endpoints: [\"a:eth0\", \"b:eth0\"]}]\nfactors: \
    {nodes: {path: topology.nodes.b.count, levels: [1, 3]}}\nmeasurements:\n  \
    - {name: udp, probe: rr, from: a, to: b-1, duration: 20ms}\n  \
    - {name: tcp, probe: rr, protocol: tcp, from: a, to: b-1, duration: 20ms}\nreplicates: 2\n";

#[test]
fn starts_of_counted_nodes_are_in_the_results() {
    enter("starts_of_counted_nodes_are_in_the_results", |bench| {
        let study = bench.file("starts", STUDY);
        let runs = bench.root().join("runs");
        let run = ["run", &study, "--runs", runs.to_str().unwrap()];
        let said = bench.latlab(&run).good();
        assert!(said.out.contains("start of nodes"), "{said:#?}");
        let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let run = RunDir::open(run.path()).unwrap();
        // Two measurements in each deployment, of which the first has the starts.
        let mut told = Vec::new();
        for number in 1..=8 {
            let trial = run.read_trial(number).unwrap().unwrap();
            for start in &trial.starts {
                assert!(start.kind == "container" && start.node.starts_with("b-"));
                assert!(start.began_ns < start.ready_ns, "{start:?}");
            }
            told.push(trial.starts.len());
        }
        told.sort_unstable();
        assert_eq!(told, [0, 0, 0, 0, 1, 1, 3, 3]);
        let summary = std::fs::read(run.root().join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        let starts = summary["starts"].as_array().unwrap();
        let rows: Vec<_> = starts
            .iter()
            .map(|row| (row["nodes"].as_u64(), row["deployments"].as_u64()))
            .collect();
        assert_eq!(rows, [(Some(1), Some(2)), (Some(3), Some(2))]);
    });
}

#[test]
fn a_deployment_tells_when_its_nodes_started() {
    enter("a_deployment_tells_when_its_nodes_started", |bench| {
        let lab =
            "name: NAME\ntopology: {nodes: {a: {kind: native}, b: {kind: container, count: 2}}}\n";
        let file = bench.file("told", lab);
        let said = bench.latlab(&["deploy", &file, "--format", "json"]).good();
        let name = bench.name("told");
        let rows = |said: &str| {
            let all: serde_json::Value = serde_json::from_str(said).unwrap();
            all[&name].as_array().unwrap().clone()
        };
        for row in rows(&said.out) {
            let start = &row["start"];
            if row["kind"] == "native" {
                assert!(start.is_null(), "{row}");
                continue;
            }
            assert!(
                start["began_ns"].as_u64() < start["ready_ns"].as_u64(),
                "{row}"
            );
        }
        let later = bench.latlab(&["inspect", &name, "--format", "json"]).good();
        assert!(rows(&later.out).iter().all(|row| row["start"].is_null()));
        bench.latlab(&["destroy", &name]).good();
    });
}

#[test]
fn counted_nodes_know_each_other_by_their_numbers() {
    enter("counted_nodes_know_each_other_by_their_numbers", |bench| {
        let lab = bench.deploy(
            "many",
            "name: NAME\ntopology:\n  nodes: {n: {kind: native, count: 3}}\n  links: \
             [{type: bridge, endpoints: [\"n:eth0\"]}]\n",
        );
        for (from, to) in [("n-1", "n-3"), ("n-3", "n-2")] {
            bench.exec(&lab, from, &["ping", "-c1", "-W20", to]).good();
        }
        bench
            .exec(&lab, "n", &["true"])
            .refused(2, "has no node `n`", "its nodes: n-1, n-2, n-3");
    });
}
