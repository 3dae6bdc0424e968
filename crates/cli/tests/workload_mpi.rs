//! MPI jobs of latlab's own programs: every kernel in nodes of several kinds, and a node that computes something else.

mod common;

use common::programs::result_of;
use common::study::{failure, read, run, trial_of};
use common::{Bench, Said, enter};
use latlab_samples::RunDir;

/// A study of a native node and a container, with a line of the container's settings.
fn run_over_both(bench: &Bench, name: &str, settings: &str, measurements: &str) -> (Said, RunDir) {
    let lab = format!(
        "name: NAME\n  topology:\n    nodes:\n      a: {{kind: native}}\n      b: {{kind: container{settings}}}\n    \
         links: [{{endpoints: [\"a:eth0\", \"b:eth0\"]}}]\n"
    );
    run(bench, name, &lab, measurements)
}

fn has_netpipe() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("NPopenmpi").is_file())
}

#[test]
fn every_kernel_and_every_pattern_is_verified_over_two_nodes() {
    enter(
        "every_kernel_and_every_pattern_is_verified_over_two_nodes",
        |bench| {
            let mut all = String::from(
                "  - {name: npb, probe: workload, on: [a, b], program: npb, timeout: 180s}\n  \
                 - {name: four, probe: workload, on: [b, a], program: {name: npb, kernels: [cg, mg], processes: 2}, timeout: 180s}\n  \
                 - {name: micro, probe: workload, on: [a, b], program: {name: mpi-micro, sizes: [8, 4KiB, 64KiB]}, timeout: 180s}\n",
            );
            let has_netpipe = has_netpipe();
            if has_netpipe {
                all += "  - {name: pipe, probe: workload, on: [a, b], program: netpipe, timeout: 180s}\n";
            }
            let (said, run) = run_over_both(bench, "kernels", "", &all);
            said.good();
            let result = result_of(&run, "npb");
            assert_eq!((result.nodes.len(), &*result.nodes[0].node), (1, "a"));
            let output = read(&run, &result.nodes[0].output);
            for kernel in ["ep", "is", "cg", "mg", "ft"] {
                let line = format!("npb {kernel} class S ranks 2 ");
                let line = output.lines().find(|found| found.starts_with(&line));
                let line = line.unwrap_or_else(|| panic!("{kernel}: {output}"));
                assert!(line.ends_with("verification successful"), "{line}");
            }
            let four = result_of(&run, "four");
            let output = read(&run, &four.nodes[0].output);
            assert!(output.contains("npb mg class S ranks 4 "), "{output}");
            let micro = result_of(&run, "micro");
            assert_eq!(micro.figures.len(), 5 * 3 + 1);
            if has_netpipe {
                result_of(&run, "pipe");
            }
        },
    );
}

/// A compiler that has one node's programs compute and send something else.
const SPOILS: &str = r#"printf '%s\n' '#!/bin/sh' '[ ! -e npb_cg.c ] || sed -i "s/CONDITION 0.1/CONDITION 0.2/" npb_cg.c' '[ ! -e micro.c ] || sed -i "s/at \* 7/at * 9/" micro.c' 'exec /usr/bin/mpicc "$@"' >/usr/local/bin/mpicc && chmod 755 /usr/local/bin/mpicc"#;

#[test]
fn a_node_that_computes_or_sends_something_else_is_no_number() {
    enter(
        "a_node_that_computes_or_sends_something_else_is_no_number",
        |bench| {
            let settings = format!(", exec: [{}]", serde_json::to_string(SPOILS).unwrap());
            let all = "  - {name: wrong, probe: workload, on: [a, b], program: {name: npb, kernels: [mg, cg]}}\n  \
                - {name: sound, probe: workload, on: [a, b], program: {name: npb, kernels: mg}}\n  \
                - {name: bytes, probe: workload, on: [a, b], program: {name: mpi-micro, sizes: 64}}\n";
            let (said, run) = run_over_both(bench, "spoilt-kernel", &settings, all);
            assert_eq!(said.code, 1, "{said:#?}");
            let line = failure(&said, "wrong");
            assert!(line.contains("node `a`"), "{line}");
            assert!(line.contains("computed zeta"), "{line}");
            assert!(
                line.contains("in cg, where 8.5971775078648 is published"),
                "{line}"
            );
            let line = failure(&said, "bytes");
            assert!(
                line.contains("received other bytes than were sent in ping-pong"),
                "{line}"
            );
            for cell in ["wrong", "bytes"] {
                let trial = trial_of(&run, cell);
                assert!(trial.workload.is_none());
                let output = read(&run, &format!("trials/{:04}/a.out", trial.trial));
                assert!(output.contains("wrong"), "{output}");
            }
            result_of(&run, "sound");
        },
    );
}

#[test]
fn a_node_without_the_compiler_says_so() {
    enter("a_node_without_the_compiler_says_so", |bench| {
        let settings =
            ", exec: [\"printf 'exit 1' >/usr/local/bin/mpicc && chmod 755 /usr/local/bin/mpicc\"]";
        let all =
            "  - {name: none, probe: workload, on: [a, b], program: {name: npb, kernels: mg}}\n";
        let (said, _) = run_over_both(bench, "no-compiler", settings, all);
        assert_eq!(said.code, 1, "{said:#?}");
        let line = failure(&said, "none");
        assert!(line.contains("node `b`: `the agent for MPI`"), "{line}");
        assert!(line.contains("ended by itself (exit status 1)"), "{line}");
    });
}
