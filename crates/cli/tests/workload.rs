//! Programs in nodes: they begin together, their output is kept, and a failure names the node and what it said.

mod common;

use std::fs;
use std::path::Path;

use common::enter;
use common::study::{failure, read, run, trial_of};

const LAB: &str = "name: NAME\n  topology:\n    nodes: {a: {kind: native}, b: {kind: container, count: 2, memory: \
    128MiB}}\n    links: [{type: bridge, endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";

const FIGURES: &str = r#"  - name: by-regex
    probe: workload
    on: [a, b]
    command: "sleep 0.2; echo starting; echo \"rate: $((40 + 2)) of many\"; echo warned >&2"
    metric: {regex: "rate: +([0-9.]+)", unit: points/s, better: higher}
  - name: by-json
    probe: workload
    on: [b-2, a]
    command: [printf, '{"runs": [{"took": 2.5}]}']
    metric: {json: /runs/0/took, unit: s, better: lower}
"#;

#[test]
fn commands_run_in_nodes_and_their_figures_are_read() {
    enter(
        "commands_run_in_nodes_and_their_figures_are_read",
        |bench| {
            let (said, run) = run(bench, "figures", LAB, FIGURES);
            let said = said.good();
            assert!(said.out.contains("points/s"), "{said:#?}");
            let trial = trial_of(&run, "by-regex");
            let workload = trial.workload.as_ref().unwrap();
            let names: Vec<&str> = workload.nodes.iter().map(|n| n.node.as_str()).collect();
            assert_eq!(names, ["a", "b-1", "b-2"]);
            // All slept at the same time: the last began before the first ended.
            let last_begin = workload.nodes.iter().map(|n| n.began_ns).max().unwrap();
            assert_eq!(workload.begin_spread_ns, last_begin);
            for node in &workload.nodes {
                assert!(last_begin < node.ended_ns, "{workload:#?}");
                assert_eq!(node.values, [42.0]);
                assert_eq!(read(&run, &node.output), "starting\nrate: 42 of many\n");
                assert_eq!(read(&run, &node.errors), "warned\n");
                assert!(
                    node.memory.pss_bytes.is_some_and(|bytes| bytes > 0),
                    "{node:?}"
                );
            }
            assert!(workload.available_lost_bytes.is_some() && workload.machine_cpu_ns.is_some());
            let times = trial_of(&run, "by-json").workload.unwrap();
            let values: Vec<(&str, f64)> = times
                .nodes
                .iter()
                .map(|node| (node.node.as_str(), node.values[0]))
                .collect();
            assert_eq!(values, [("b-2", 2.5), ("a", 2.5)]);
            assert!(!times.figures[0].higher_is_better);
            let summary = run.read_summary().unwrap();
            let cell = summary
                .cells
                .iter()
                .find(|cell| cell.id == "by-regex")
                .unwrap();
            let metric = |name: &str| {
                let found = cell.metrics.iter().find(|metric| metric.name == name);
                found
                    .unwrap_or_else(|| panic!("{name}: {cell:#?}"))
                    .values
                    .clone()
            };
            assert_eq!(
                (metric("per-node"), metric("all-nodes")),
                (vec![42.0], vec![126.0])
            );
            assert_eq!(metric("jain"), [1.0]);
            assert_eq!(cell.scaling.as_ref().unwrap().nodes, 3);
            // Kept files are under the checksums of the run.
            assert!(
                run.read_manifest()
                    .unwrap()
                    .checksums
                    .contains_key(&workload.nodes[0].output)
            );
        },
    );
}

const FAILURES: &str = r#"  - name: fails
    probe: workload
    on: [a, b]
    command: "if [ -e /proc/1/root/marker ]; then :; fi; echo nearly; echo broken pipe >&2; exit 3"
    metric: {regex: "rate: +([0-9.]+)", unit: points/s, better: higher}
  - name: says-nothing
    probe: workload
    on: b
    command: [echo, "no figure here"]
    metric: {regex: "rate: +([0-9.]+)", unit: points/s, better: higher}
  - name: hangs
    probe: workload
    on: [a, b]
    command: "echo waiting; sleep 1000 & sleep 1000"
    timeout: 500ms
    metric: {regex: "rate: +([0-9.]+)", unit: points/s, better: higher}
  - name: is-not-there
    probe: workload
    on: b-1
    command: [latlab-no-such-program, --fast]
    metric: {regex: "rate: +([0-9.]+)", unit: points/s, better: higher}
"#;

#[test]
fn a_sweep_measures_at_each_value_of_a_parameter() {
    enter("a_sweep_measures_at_each_value_of_a_parameter", |bench| {
        let sweep = "  - {name: packed, probe: workload, on: a, program: {name: xz, size: 256KiB}, duration: 200ms, \
            warmup: 0s, sweep: {program.level: [1, 6]}}\n";
        let (said, run) = run(bench, "sweep", LAB, sweep);
        let said = said.good();
        let head = said.out.lines().find(|line| line.contains(" level "));
        assert!(head.unwrap().trim().starts_with("packed"), "{}", said.out);
        let summary = run.read_summary().unwrap();
        for (info, level) in summary.measurements.iter().zip(["1", "6"]) {
            let point = info.sweep.as_ref().unwrap();
            assert_eq!(
                [&*point.sweep, &*point.parameter, &*point.value],
                ["packed", "program.level", level]
            );
            let name = format!("packed-{level}");
            assert_eq!(info.name, name);
            let cell = summary.cells.iter().find(|cell| cell.measurement == name);
            assert!(cell.unwrap().metrics[0].spread.median > 0.0, "{cell:#?}");
        }
        let figure = |name| {
            trial_of(&run, name).workload.unwrap().nodes[0]
                .values
                .clone()
        };
        // Level 6 packs closer: the second value is text over what it was packed to.
        assert!(figure("packed-6")[1] > figure("packed-1")[1]);
    });
}

#[test]
fn a_program_that_fails_is_named_with_its_node_and_last_words() {
    enter(
        "a_program_that_fails_is_named_with_its_node_and_last_words",
        |bench| {
            let (said, run) = run(bench, "failures", LAB, FAILURES);
            assert_eq!(said.code, 1, "{said:#?}");
            for (cell, words) in [
                (
                    "fails",
                    &[
                        "node `a`: `/bin/sh -c ",
                        "failed (exit status 3)",
                        ": broken pipe",
                    ][..],
                ),
                (
                    "says-nothing",
                    &[
                        "node `b-1`: `echo no figure here`",
                        "/rate: +([0-9.]+)/",
                        ": no figure here",
                    ],
                ),
                (
                    "hangs",
                    &["node `a`: ", "did not end within 500ms", ": waiting"],
                ),
                (
                    "is-not-there",
                    &[
                        "node `b-1`: `latlab-no-such-program --fast`",
                        "No such file",
                    ],
                ),
            ] {
                let line = failure(&said, cell);
                for word in words {
                    assert!(line.contains(word), "{word}: {line}");
                }
            }
            // The output of a failed program is kept, and what the others had written: the first that fails
            // ends them.
            let number = trial_of(&run, "fails").trial;
            for (file, words) in [("out", "nearly\n"), ("err", "broken pipe\n")] {
                let of = |node| read(&run, &format!("trials/{number:04}/{node}.{file}"));
                assert_eq!(of("a"), words);
                for node in ["b-1", "b-2"] {
                    assert!(words.starts_with(&of(node)), "{node}: {}", of(node));
                }
            }
            let number = trial_of(&run, "says-nothing").trial;
            let output = read(&run, &format!("trials/{number:04}/b-1.out"));
            assert_eq!(output, "no figure here\n");
            common::until("what hung is gone", || {
                common::world::processes().iter().all(|pid| {
                    let words = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
                    !words.unwrap_or_default().starts_with(b"sleep\x001000")
                })
            });
        },
    );
}

/// A built-in program that the host lacks is told before anything is changed.
#[test]
fn a_program_that_is_not_installed_is_refused_before_a_lab_is_made() {
    enter(
        "a_program_that_is_not_installed_is_refused_before_a_lab_is_made",
        |bench| {
            let measurement = "  - {name: primes, probe: workload, on: b, program: sysbench-cpu}\n";
            let text = format!("name: missing\nlab:\n  {LAB}measurements:\n{measurement}");
            let study = bench.file("missing", &text);
            let runs = bench.root().join("runs-missing");
            let mut command = bench.command(&["run", &study, "--runs", runs.to_str().unwrap()]);
            // Where sysbench is not, and what a lab needs is.
            let tools = bench.root().join("tools");
            fs::create_dir(&tools).unwrap();
            for tool in ["crun", "ip", "nft"] {
                let found = common::tool(&["sh", "-c", &format!("command -v {tool}")]);
                std::os::unix::fs::symlink(found.trim(), tools.join(tool)).unwrap();
            }
            let said = common::finish(command.env("PATH", &tools));
            assert_eq!(said.code, 2, "{said:#?}");
            assert!(
                said.err.contains("needs sysbench in node `b-1`"),
                "{said:#?}"
            );
            assert!(said.err.contains("apt-get install sysbench"), "{said:#?}");
            assert!(!runs.exists());
        },
    );
}
