//! Studies whose labs are on several hosts: machines with ssh daemons, each in namespaces of its own.

mod cluster;
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cluster::Cluster;
use cluster::labs::{hosts, nothing_is_left};
use common::{Bench, enter, finish, finished, until};
use latlab_model::results::{Check, Trial, TrialOutcome};
use latlab_samples::RunDir;

/// Three hosts, of which this machine is one.
fn lab(host: &str, carrier: &str) -> String {
    format!(
        "name: NAME\n{}topology:\n  nodes:\n    a: {{kind: container, host: here}}\n    \
         b: {{kind: native, host: {host}}}\n    c: {{kind: native, host: n2}}\n    d: {{kind: native, host: n2}}\n    \
         e: {{kind: native, host: n2}}\n  links:\n    \
         - {{type: overlay, carrier: {carrier}, endpoints: ['a:eth0', 'b:eth0']}}\n    \
         - {{endpoints: ['c:eth0', 'd:eth0']}}\n    - {{endpoints: ['d:eth1', 'e:eth0']}}\n",
        hosts(2, true)
    )
}

/// The file of a study of the lab with `b` on the second machine, and where its runs will be.
fn study(bench: &Bench, name: &str, carrier: &str, rest: &str) -> (String, PathBuf) {
    let lab: String = lab("n2", carrier)
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    let text = format!("name: {name}\nlab:\n{lab}{rest}replicates: 1\n");
    (bench.file(name, &text), bench.root().join("runs"))
}

/// The only run there.
fn only_run(runs: &Path) -> RunDir {
    let mut all = std::fs::read_dir(runs).expect("a run was begun");
    let first = all.next().expect("a run was begun").unwrap();
    RunDir::open(first.path()).unwrap()
}

/// The trial of a cell whose identifier begins so.
fn trial_of(run: &RunDir, cell: &str) -> Trial {
    let manifest = run.read_manifest().unwrap();
    let found = manifest.order.iter().find(|t| t.cell.starts_with(cell));
    let number = found.expect("the cell is in the order").trial;
    run.read_trial(number).unwrap().expect("it has a record")
}

#[test]
fn a_study_measures_on_and_between_hosts() {
    enter("a_study_measures_on_and_between_hosts", |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        let rest = "factors:
  b: {path: topology.nodes.b.host, levels: {apart: n1, together: here}}
measurements:
  - {name: trip, probe: rr, protocol: udp, from: a, to: b, duration: 500ms}
  - {name: ping, probe: rr, protocol: icmp, from: a, to: b, duration: 300ms, rate: 1000}
  - {name: bulk, probe: stream, from: a, to: b, duration: 1s}
  - {name: there, probe: packets, from: c, to: d, rate: 2000, duration: 300ms, warmup: 50ms}
  - {name: through, probe: forward, from: c, through: [d], device: route, to: e, rate: 2000, duration: 500ms, warmup: 50ms}
";
        let (file, runs) = study(bench, "wide", "udp", rest);
        bench
            .latlab(&["run", &file, "--runs", runs.to_str().unwrap()])
            .good();
        let run = only_run(&runs);
        let manifest = run.read_manifest().unwrap();
        assert_eq!(manifest.order.len(), 10);
        for planned in &manifest.order {
            let trial = run.read_trial(planned.trial).unwrap().unwrap();
            assert_eq!(trial.outcome, TrialOutcome::Measured, "{}", planned.cell);
        }
        for cell in [
            "trip/b=apart",
            "trip/b=together",
            "ping/b=apart",
            "ping/b=together",
        ] {
            let trial = trial_of(&run, cell);
            assert!(
                trial.samples.is_some() && trial.counters.received > 50,
                "{cell}"
            );
            assert_eq!(trial.counters.lost, 0, "{cell}");
            assert!(
                trial.floor.is_some_and(|floor| floor.median_ns > 0.0),
                "{cell}"
            );
        }
        // Both hosts of a measurement between them watch themselves.
        let apart = trial_of(&run, "trip/b=apart");
        for host in ["here", "n1"] {
            let of_host = |check: &&Check| {
                check.name == "steal" && check.question.ends_with(&format!("on host {host}"))
            };
            assert_eq!(apart.checks.iter().filter(of_host).count(), 1, "{host}");
        }
        let bulk = trial_of(&run, "bulk/b=apart").stream.unwrap();
        assert!(bulk.bytes > 1 << 20, "{bulk:?}");
        // Taps and the recorder were at work on the second host, and their files came over.
        let trace = trial_of(&run, "through/b=apart").trace.unwrap();
        assert_eq!(trace.hops.len(), 1);
        assert!(trace.hops[0].counters.received > 900, "{:?}", trace.hops);
        let path = run.root().to_str().unwrap();
        let explained = bench.latlab(&["explain", path]).good();
        assert!(explained.out.contains("through"), "{}", explained.out);
        // Places of nodes are in the record.
        let of_b = |index: usize| {
            let nodes = &manifest.topologies[index].nodes;
            let b = nodes.iter().find(|node| node.name == "b").unwrap();
            b.facts[0].clone()
        };
        assert_eq!([of_b(0), of_b(1)], ["on host n1", "on host here"]);
        assert!(run.verify(&manifest.checksums).is_empty());
        nothing_is_left(bench, 1..=2);
    });
}

#[test]
fn measurements_that_need_one_machine_are_refused_between_hosts() {
    enter(
        "measurements_that_need_one_machine_are_refused_between_hosts",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let refused = |measurement: &str, what: &str, hint: &str| {
                let rest = format!("measurements: [{measurement}]\n");
                let (file, runs) = study(bench, "refused", "sealed", &rest);
                let words = ["run", &file, "--runs", runs.to_str().unwrap()];
                let said = bench.latlab(&words);
                assert!(
                    said.code == 2 && said.err.contains(what) && said.err.contains(hint),
                    "{what}: {said:#?}"
                );
                assert!(!runs.exists(), "{said:#?}");
            };
            let ends = "from: a, to: b";
            refused(
                &format!("{{probe: packets, {ends}}}"),
                "by two machines' clocks",
                "probe: rr",
            );
            refused(
                &format!("{{probe: forward, {ends}}}"),
                "needs its taps on one machine",
                "the same `host`",
            );
            refused(
                &format!("{{probe: rr, {ends}, noise: spin}}"),
                "has noise, which one machine makes",
                "the same `host`",
            );
            refused(
                &format!(
                    "{{probe: rr, {ends}, actions: [{{at: 100ms, do: {{pause: b, for: 100ms}}}}]}}"
                ),
                "has actions, which one machine does",
                "the same `host`",
            );
            refused(
                "{probe: workload, on: [a, b], command: 'echo 1', metric: {regex: '(1)', unit: x, better: higher}}",
                "counts the CPU time and memory of one machine",
                "the same `host`",
            );
            cluster.cut(2);
            refused(
                &format!("{{probe: rr, {ends}}}"),
                "host `n2`: no connection",
                "nothing was changed",
            );
            cluster.boot_sshd(bench, 2);
            nothing_is_left(bench, 1..=2);
        },
    );
}

#[test]
fn a_host_that_dies_fails_the_trial_and_the_lab_is_removed_when_it_is_back() {
    enter(
        "a_host_that_dies_fails_the_trial_and_the_lab_is_removed_when_it_is_back",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let rest = "measurements: [{name: trip, probe: rr, from: a, to: b, duration: 12s}]\n";
            let (file, runs) = study(bench, "dying", "sealed", rest);
            let words = ["run", &file, "--runs", runs.to_str().unwrap()];
            let mut command = bench.command(&words);
            let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let running = pipes.spawn().unwrap();
            until("the client measures", || {
                let mut look = Command::new("pgrep");
                finish(look.args(["--full", "rr-client.*--duration-ms 12000"])).code == 0
            });
            cluster.cut(2);
            let said = finished(running);
            said.ended_badly(
                2,
                "could not be removed: host `n2`: no connection",
                "latlab destroy",
            );
            let trial = only_run(&runs).read_trial(1).unwrap().unwrap();
            let TrialOutcome::Failed { reason } = trial.outcome else {
                panic!("measured with a dead host");
            };
            assert!(
                reason.contains("n2") || reason.contains("node `b`"),
                "{reason}"
            );
            cluster.boot_sshd(bench, 2);
            bench.latlab(&["destroy", &bench.name("dying")]).good();
            nothing_is_left(bench, 1..=2);
        },
    );
}

#[test]
fn hosts_reboot_between_replicates() {
    enter("hosts_reboot_between_replicates", |bench| {
        let mut cluster = Cluster::new(bench, 1);
        cluster.start_ssh(bench);
        let text = |hosts: &str, host: &str| {
            format!(
                "name: fresh\nlab:\n  name: NAME\n{hosts}  topology:\n    \
                 nodes: {{a: {{kind: native{host}}}, b: {{kind: native{host}}}}}\n    \
                 links: [{{endpoints: ['a:eth0', 'b:eth0']}}]\n\
                 measurements:\n  - {{probe: rr, protocol: udp, from: a, to: b, duration: 200ms}}\n\
                 hosts: {{reboot: between-replicates}}\nreplicates: 2\n"
            )
        };
        let runs = bench.root().join("runs");
        let words = |file: &str| {
            let words = ["run", file, "--runs", runs.to_str().unwrap()];
            words.map(str::to_owned)
        };
        let here = words(&bench.file("here", &text("", "")));
        let here: Vec<&str> = here.iter().map(String::as_str).collect();
        let said = bench.latlab(&here);
        said.refused(2, "its labs are on this machine alone", "`ssh:`");

        let there: String = hosts(1, false)
            .lines()
            .map(|line| format!("  {line}\n"))
            .collect();
        let there = words(&bench.file("fresh", &text(&there, ", host: n1")));
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let mut run = bench.command(&there);
        let run = run
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("the machine reboots", || cluster.has_ended(1));
        cluster.boot_sshd(bench, 1);
        finished(run).good();
        let run = only_run(&runs);
        for trial in [1, 2] {
            let trial = run.read_trial(trial).unwrap().unwrap();
            assert_eq!(trial.outcome, TrialOutcome::Measured);
        }
        nothing_is_left(bench, 1..=1);
    });
}
