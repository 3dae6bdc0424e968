//! Nodes of every kind stand still and go on.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use latlab_samples::{RunDir, SampleReader};

use common::{Bench, enter, guests, kinds, labelled, signal, tool, until};

/// A counter, one line every 20 ms.
const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done";
/// Far more than a line takes.
const SILENCE: Duration = Duration::from_millis(500);

fn kinds_here() -> Vec<&'static str> {
    let mut kinds = kinds().to_vec();
    if guests() && !kinds.contains(&"vm") {
        kinds.push("vm");
    }
    kinds
}

fn lab(kinds: &[&str]) -> String {
    let nodes = kinds.iter().map(|kind| match *kind {
        "vm" => "    vm: {kind: vm, memory: 256MiB, start: clone}\n".to_owned(),
        kind => format!("    {kind}: {{kind: {kind}}}\n"),
    });
    let nodes: String = nodes.collect();
    format!("name: NAME\ntopology:\n  nodes:\n{nodes}    outside: {{kind: host}}\n")
}

/// Lines that a command in a node prints, as they come; the command ends with the lab.
fn lines(bench: &Bench, lab: &str, node: &str) -> (std::process::Child, Receiver<String>) {
    let mut command = bench.command(&["exec", lab, node, "--", "sh", "-c", COUNTER]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = channel();
    std::thread::spawn(move || {
        output
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    (child, lines)
}

fn state_of(bench: &Bench, lab: &str, node: &str) -> String {
    let rows = bench.latlab(&["inspect", lab, "-f", "json"]).good().out;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let rows = rows[lab].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["name"] == node).unwrap();
    row["state"].as_str().unwrap().to_owned()
}

/// Waits for a line, which a node that goes on prints.
fn next(lines: &Receiver<String>) {
    lines.recv_timeout(common::TIMEOUT).unwrap();
}

#[test]
fn a_paused_node_stands_still_until_it_is_resumed() {
    enter("a_paused_node_stands_still_until_it_is_resumed", |bench| {
        let kinds = kinds_here();
        let lab = bench.deploy("pause", &lab(&kinds));
        for node in kinds {
            let (mut counting, lines) = lines(bench, &lab, node);
            next(&lines);
            bench.latlab(&["pause", &lab, node]).good();
            assert_eq!(state_of(bench, &lab, node), "paused");
            // Lines that were under way come first.
            let start = Instant::now();
            while lines.recv_timeout(SILENCE).is_ok() {
                assert!(start.elapsed() < common::TIMEOUT, "{node} counts on");
            }
            bench.exec(&lab, node, &["true"]).refused(
                2,
                &format!("node `{node}` of lab `{lab}` is paused"),
                "latlab resume",
            );
            // Twice is as once.
            bench.latlab(&["pause", &lab, node]).good();
            bench.latlab(&["resume", &lab, node]).good();
            assert_eq!(state_of(bench, &lab, node), "running");
            next(&lines);
            bench.latlab(&["resume", &lab, node]).good();
            bench.exec(&lab, node, &["true"]).good();
            signal(counting.id(), "KILL");
            counting.wait().unwrap();
        }
        bench.latlab(&["pause", &lab, "outside"]).refused(
            2,
            "is the host itself",
            "pause the nodes that it speaks with",
        );
        let wrong = bench.latlab(&["pause", &lab, "native", "nosuch"]);
        wrong.refused(2, "has no node `nosuch`", "its nodes: native");
        assert_eq!(state_of(bench, &lab, "native"), "running");
    });
}

fn paused_and_destroyed(bench: &Bench, kinds: &[&str]) {
    let lab = bench.deploy("stuck", &lab(kinds));
    let counting: Vec<_> = kinds.iter().map(|node| lines(bench, &lab, node)).collect();
    counting.iter().for_each(|(_, lines)| next(lines));
    bench.latlab(&["pause", &lab]).good();
    for node in kinds {
        assert_eq!(state_of(bench, &lab, node), "paused");
    }
    bench.latlab(&["destroy", &lab]).good();
    for (mut child, _) in counting {
        child.wait().unwrap();
    }
    until("all processes end", || labelled().is_empty());
    bench.assert_clean();
}

const STUDY: &str = "name: still\nlab:\n  name: NAME\n  topology:\n    nodes: {a: {kind: native}, b: {kind: container}}\n    \
    links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\nmeasurements:\n  \
    - {name: one-way, probe: packets, from: a, to: b, rate: 2000, duration: 1s, warmup: 100ms, actions: ACTIONS}\n  \
    - {name: round, probe: rr, protocol: tcp, from: a, to: b, duration: 1s, actions: ACTIONS}\nreplicates: 1\n";
const ACTIONS: &str =
    "[{at: 300ms, do: {pause: b, for: 200ms}}, {at: 700ms, do: {pause: b, for: 50ms}}]";

/// The receiving program is frozen, so it has no arrival between the moments that the results name; nor does it answer.
#[test]
fn nothing_arrives_while_a_node_is_paused() {
    enter("nothing_arrives_while_a_node_is_paused", |bench| {
        let study = bench.file("still", &STUDY.replace("ACTIONS", ACTIONS));
        let runs = bench.root().join("runs");
        let runs_word = runs.to_str().unwrap();
        let said = bench.latlab(&["run", &study, "--runs", runs_word]).good();
        assert!(said.out.contains("stood still"), "{said:#?}");
        let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let run = RunDir::open(run.path()).unwrap();
        for number in [1, 2] {
            let trial = run.read_trial(number).unwrap().unwrap();
            assert_eq!(trial.actions.len(), 2, "{trial:?}");
            let mut samples = Vec::new();
            let mut reader =
                SampleReader::open(run.inside(number, trial.samples.as_ref().unwrap()).unwrap());
            let mut batch = Vec::new();
            while reader.as_mut().unwrap().next_batch(&mut batch).unwrap() {
                samples.append(&mut batch);
            }
            let arrivals: Vec<i64> = samples.iter().filter_map(|s| s.received_ns).collect();
            for pause in &trial.actions {
                let still = pause.stopped_ns.unwrap()..pause.resumed_ns.unwrap();
                assert!(!still.is_empty(), "{pause:?}");
                let within = arrivals.iter().filter(|at| still.contains(at)).count();
                // The client, which is not frozen, may still take an answer that was under way.
                let under_way = usize::from(trial.cell.starts_with("round"));
                assert!(within <= under_way, "trial {number}: {within}, {pause:?}");
                // Packets arrive before and after.
                assert!(arrivals.iter().any(|at| *at < still.start));
                assert!(arrivals.iter().any(|at| *at >= still.end));
            }
        }
    });
}

const FORWARDED: &str = "name: held\nlab:\n  name: NAME\n  topology:\n    nodes:\n      \
    a: {kind: native, exec: [\"ip route add 10.9.2.0/24 dev eth0\"]}\n      \
    d: {kind: container}\n      \
    b: {kind: native, exec: [\"ip route add 10.9.1.0/24 dev eth0\"]}\n    links:\n      \
    - endpoints:\n          - {node: a, interface: eth0, ipv4: 10.9.1.1/24}\n          \
    - {node: d, interface: in, ipv4: 10.9.1.2/24}\n      \
    - endpoints:\n          - {node: d, interface: out, ipv4: 10.9.2.2/24}\n          \
    - {node: b, interface: eth0, ipv4: 10.9.2.1/24}\nmeasurements:\n  \
    - {probe: forward, device: af-packet, poll: block, from: a, through: d, to: b, rate: 500, duration: 1s, \
    actions: [{at: 400ms, do: {pause: d, for: 200ms}}]}\nreplicates: 1\n";

/// Packets that come meanwhile wait for the forwarder in the node, and are the slowest.
#[test]
fn packets_that_waited_for_a_paused_node_are_explained_by_it() {
    enter(
        "packets_that_waited_for_a_paused_node_are_explained_by_it",
        |bench| {
            let study = bench.file("held", FORWARDED);
            let runs = bench.root().join("runs");
            let runs_word = runs.to_str().unwrap();
            bench.latlab(&["run", &study, "--runs", runs_word]).good();
            let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
            let run_word = run.path().display().to_string();
            let trial = RunDir::open(run.path()).unwrap().read_trial(1).unwrap();
            let trace = trial.unwrap().trace.unwrap();
            assert_eq!(trace.held.len(), 1, "{:?}", trace.held);
            if trace.events.is_none() {
                println!("nothing was recorded here: {:?}", trace.unknown);
                return;
            }
            let said = bench.latlab(&["explain", &run_word]).good();
            assert!(said.out.contains("the node was paused"), "{said:#?}");
        },
    );
}

#[test]
fn a_lab_whose_nodes_are_paused_is_destroyed() {
    enter("a_lab_whose_nodes_are_paused_is_destroyed", |bench| {
        paused_and_destroyed(bench, &kinds_here());
    });
}

/// There a frozen process does not even end by SIGKILL.
#[test]
fn a_paused_lab_is_destroyed_on_cgroup_version_1_too() {
    const UNIFIED: &str = "/sys/fs/cgroup/unified";
    enter(
        "a_paused_lab_is_destroyed_on_cgroup_version_1_too",
        |bench| {
            if !Path::new("/sys/fs/cgroup/freezer/tasks").exists() {
                println!("skipped: this machine has no freezer of cgroup version 1");
                return;
            }
            if Path::new(UNIFIED).join("cgroup.procs").exists() {
                // In the mount namespace of the test.
                tool(&["umount", UNIFIED]);
            }
            paused_and_destroyed(bench, &["native", "container"]);
        },
    );
}
