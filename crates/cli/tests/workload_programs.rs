//! The built-in programs of workloads: each runs in each kind of node, and what goes wrong is no number.

mod common;

use std::fs;

use common::programs::{Disk, PROGRAMS, measurements, result_of, server_of};
use common::study::{failure, read, run, trial_of};
use common::{enter, tool};

#[test]
fn every_program_runs_natively_and_in_containers_of_both_runtimes() {
    enter(
        "every_program_runs_natively_and_in_containers_of_both_runtimes",
        |bench| {
            let disk = Disk::new();
            let bind = format!("[\"{0}:{0}\"]", disk.0.display());
            let lab = format!(
                "name: NAME\n  topology:\n    nodes:\n      a: {{kind: native}}\n      \
                 b: {{kind: container, binds: {bind}}}\n      c: {{kind: container, runtime: runc, binds: {bind}}}\n    \
                 links: [{{type: bridge, endpoints: [\"a:eth0\", \"b:eth0\", \"c:eth0\"]}}]\n"
            );
            let mut all = measurements("[a, b, c]", &disk.0);
            for (name, program) in [
                ("redis", "{name: redis, connections: 5}"),
                ("oltp", "{name: oltp, threads: 2, table_size: 100}"),
            ] {
                all += &format!(
                    "  - {{name: {name}-from, probe: workload, on: b, from: c, program: {program}, duration: 1s}}\n"
                );
            }
            all += "  - {name: mpi, probe: workload, on: [a, b, c], program: {name: mpi-hpcc, n: 100}, timeout: 180s}\n";
            let (said, run) = run(bench, "programs", &lab, &all);
            said.good();
            // One job of three nodes, which the first began.
            let result = result_of(&run, "mpi");
            assert_eq!((result.nodes.len(), &*result.nodes[0].node), (1, "a"));
            let output = read(&run, &result.nodes[0].output);
            assert!(output.contains("CommWorldProcs=3"), "{output}");
            for name in PROGRAMS {
                let result = result_of(&run, name);
                let nodes: Vec<&str> = result.nodes.iter().map(|n| n.node.as_str()).collect();
                assert_eq!(nodes, ["a", "b", "c"], "{name}");
                let on_disk = name == "fio" || name == "sysbench-fileio";
                let in_memory = |kind: &Option<String>| kind.as_ref().unwrap().contains("memory");
                assert!(
                    result
                        .nodes
                        .iter()
                        .all(|n| in_memory(&n.files_on) != on_disk)
                );
                let has_server = name == "redis" || name == "oltp";
                assert!(
                    result
                        .nodes
                        .iter()
                        .all(|n| n.server.is_some() == has_server)
                );
            }
            for (name, word) in [
                ("redis-from", "Ready to accept"),
                ("oltp-from", "ready for conn"),
            ] {
                let result = result_of(&run, name);
                let node = &result.nodes[0];
                assert_eq!(node.node, "b");
                assert_eq!(node.client.as_ref().unwrap().node, "c");
                assert!(node.output.ends_with("/c.out"), "{node:#?}");
                assert!(server_of(&run, node).contains(word), "{node:#?}");
            }
            assert!(
                fs::read_dir(&disk.0).unwrap().next().is_none(),
                "files are left"
            );
        },
    );
}

#[test]
fn a_job_over_a_nat_is_refused() {
    enter("a_job_over_a_nat_is_refused", |bench| {
        let study = bench.file(
            "over-nat",
            "name: over-nat\nlab:\n  name: NAME\n  topology:\n    nodes: {a: {kind: native}, b: {kind: native}}\n    \
             links: [{type: nat, endpoints: [\"a:eth0\", \"b:eth0\"]}]\nmeasurements:\n  \
             - {name: job, probe: workload, on: [a, b], program: mpi-hpcc}\nreplicates: 1\n",
        );
        let said = bench.latlab(&["validate", &study]);
        assert_eq!(said.code, 2, "{said:?}");
        let expected = "no link without NAT joins `a` and `b` over IPv4";
        assert!(said.err.contains(expected), "{said:?}");
    });
}

/// The text becomes another one as soon as it is there.
const SPOILS: &str = "while :; do [ ! -e /dev/shm/latlab/made ] || printf '~' | \
    dd of=/dev/shm/latlab/corpus bs=1 seek=100 conv=notrunc status=none; sleep 0.05; done";
/// The server is killed in the midst of its work.
const KILLS: &str = "while :; do for p in /proc/[0-9]*; do case $(cat $p/comm) in redis-benchmark) sleep 0.2; \
    for q in /proc/[0-9]*; do [ \"$(cat $q/comm)\" != redis-server ] || kill -9 ${q#/proc/}; done;; esac; done; \
    sleep 0.05; done 2>/dev/null";

#[test]
fn a_spoilt_text_a_killed_server_and_a_full_disk_are_no_numbers() {
    enter(
        "a_spoilt_text_a_killed_server_and_a_full_disk_are_no_numbers",
        |bench| {
            let small = bench.root().join("small");
            fs::create_dir(&small).unwrap();
            let small = small.to_str().unwrap();
            tool(&[
                "mount",
                "-t",
                "tmpfs",
                "-o",
                "size=16m",
                "latlab-test",
                small,
            ]);
            let line = |text: &str| serde_json::to_string(text).unwrap();
            let lab = format!(
                "name: NAME\n  topology:\n    nodes:\n      spoilt: {{kind: container, run: {}}}\n      \
                 killed: {{kind: container, run: {}}}\n      full: {{kind: container, binds: [\"{small}:/small\"]}}\n    \
                 links: [{{type: bridge, endpoints: [\"spoilt:eth0\", \"killed:eth0\", \"full:eth0\"]}}]\n",
                line(SPOILS),
                line(KILLS)
            );
            let all = "  - {name: text, probe: workload, on: spoilt, program: {name: xz, size: 256KiB}, duration: 2s}\n  \
                - {name: server, probe: workload, on: killed, program: redis, duration: 20s}\n  \
                - {name: disk, probe: workload, on: full, program: {name: oltp, directory: /small}, duration: 1s}\n  \
                - {name: memory, probe: workload, on: full, program: {name: fio, directory: /small}, duration: 1s}\n";
            let (said, run) = run(bench, "spoilt", &lab, all);
            tool(&["umount", small]);
            assert_eq!(said.code, 1, "{said:#?}");
            for (cell, words) in [
                ("text", &["node `spoilt`", "corrupted text"][..]),
                (
                    "server",
                    &["node `killed`: `redis-server` was killed by signal 9"],
                ),
                (
                    "disk",
                    &[
                        "node `full`: `mariadbd` ended by itself",
                        "failed with error 28",
                    ],
                ),
                ("memory", &["node `full`: `/small/", "is in memory (tmpfs)"]),
            ] {
                let line = failure(&said, cell);
                for word in words {
                    assert!(line.contains(word), "{word}: {line}");
                }
                assert!(trial_of(&run, cell).workload.is_none());
            }
            let number = trial_of(&run, "server").trial;
            let server = read(&run, &format!("trials/{number:04}/killed.server.out"));
            assert!(server.contains("Ready to accept"), "{server}");
            let number = trial_of(&run, "text").trial;
            let output = read(&run, &format!("trials/{number:04}/spoilt.out"));
            assert!(output.contains("latlab-run "), "{output}");
        },
    );
}
