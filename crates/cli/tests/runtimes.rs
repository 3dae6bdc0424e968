//! Containers of every runtime in one lab, by the real binary: deployed, measured, ended, and killed while they start,
//! also beside those of the machine's users.

mod bystanders;
mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bystanders::{Bystanders, places};
use common::{Bench, enter, kill_after};
use latlab_model::kinds::Runtime;
use latlab_samples::RunDir;

/// `scripts/setup test` installs them all.
fn lab() -> String {
    let nodes: String = Runtime::ALL
        .iter()
        .map(|runtime| {
            format!("    {runtime}: {{kind: container, runtime: {runtime}, memory: 128MiB}}\n")
        })
        .collect();
    let ends: String = Runtime::ALL
        .iter()
        .map(|runtime| format!(", \"{runtime}:eth0\""))
        .collect();
    format!(
        "name: NAME\ntopology:\n  nodes:\n    a: {{kind: native}}\n{nodes}  links:\n    \
         - {{type: bridge, endpoints: [\"a:eth0\"{ends}]}}\n"
    )
}

#[test]
fn containers_of_every_runtime_are_one_lab() {
    enter("containers_of_every_runtime_are_one_lab", |bench| {
        places::make_own();
        let before = places::files();
        let lab = bench.deploy("runtimes", &lab());
        for runtime in Runtime::ALL {
            let name = runtime.to_string();
            bench
                .exec(&lab, "a", &["ping", "-c1", "-W20", &name])
                .good();
            let own = bench.exec(&lab, &name, &["hostname"]).good();
            assert_eq!(own.out.trim(), name);
            let said = bench.exec(&lab, &name, &["sh", "-c", "exit 7"]);
            assert_eq!(said.code, 7, "{said:#?}");
            if !runtime.leaves() {
                let to = bench.root().join("snapshot");
                let snapshot = ["snapshot", &lab, &name, "--to", to.to_str().unwrap()];
                let refused = bench.latlab(&snapshot);
                refused.refused(2, "cannot be saved or moved", "`runtime: crun` and `runc`");
            }
        }
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
        let now = places::files();
        let changed: Vec<&String> = now.symmetric_difference(&before).collect();
        assert!(changed.is_empty(), "{changed:#?}");
    });
}

const STUDY: &str = "name: runtimes\nlab:\n  name: NAME\n  topology:\n    nodes: {a: {kind: native}, \
    b: {kind: container}}\n    links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\nfactors:\n  \
    runtime: {path: topology.nodes.b.runtime, levels: [crun, runc, podman, docker, nspawn, lxc]}\nmeasurements:\n  \
    - {name: echo, probe: rr, from: a, to: b, duration: 100ms}\nreplicates: 1\n";

#[test]
fn the_runtime_is_a_factor() {
    enter("the_runtime_is_a_factor", |bench| {
        let study = bench.file("runtimes", STUDY);
        let runs = bench.root().join("runs");
        bench
            .latlab(&["run", &study, "--runs", runs.to_str().unwrap()])
            .good();
        let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let run = RunDir::open(run.path()).unwrap();
        for number in 1..=Runtime::ALL.len() as u32 {
            let trial = run.read_trial(number).unwrap().unwrap();
            assert_eq!(trial.starts.len(), 1, "{trial:?}");
        }
        let manifest = fs::read_to_string(run.root().join("manifest.json")).unwrap();
        for runtime in Runtime::ALL {
            let program = runtime.programs()[0];
            assert!(manifest.contains(&format!("\"{program}\"")), "{program}");
        }
        bench.assert_clean();
    });
}

#[test]
fn a_kill_in_the_start_of_any_runtime_leaves_nothing() {
    enter(
        "a_kill_in_the_start_of_any_runtime_leaves_nothing",
        |bench| {
            let file = bench.file("runtimes", &lab());
            // The first start of a runtime takes longer than the others.
            let mut usual = Duration::MAX;
            for _ in 0..2 {
                let begin = Instant::now();
                bench.latlab(&["deploy", &file]).good();
                usual = usual.min(begin.elapsed());
                bench.latlab(&["destroy", "--all", "-y"]).good();
                bench.assert_clean();
            }
            let mut killed = 0;
            for part in 1..10 {
                let still_ran = deploy_killed(bench, &file, usual * part / 10);
                killed += u32::from(still_ran);
                if !still_ran {
                    usual = usual * 7 / 10;
                }
                bench.latlab(&["destroy", "--all", "-y"]).good();
                bench.assert_clean();
            }
            assert!(killed > 4, "{killed} of 9 still ran");
        },
    );
}

#[test]
fn containers_of_users_live_through_a_lab_of_every_runtime() {
    enter(
        "containers_of_users_live_through_a_lab_of_every_runtime",
        |bench| {
            let file = bench.file("beside", &lab());
            let users = Bystanders::start(bench);
            bench.take_as_given();
            let begin = Instant::now();
            bench.latlab(&["deploy", &file]).good();
            let usual = begin.elapsed();
            users.look();
            bench.latlab(&["destroy", "--all", "-y"]).good();
            users.look();
            for part in [3, 6, 9] {
                deploy_killed(bench, &file, usual * part / 10);
                bench.latlab(&["destroy", "--all", "-y"]).good();
                users.look();
            }
            bench.assert_clean();
            drop(users);
            bench.take_as_given();
        },
    );
}

/// Whether it was still running at that moment.
fn deploy_killed(bench: &Bench, file: &str, moment: Duration) -> bool {
    let mut command = bench.command(&["deploy", file]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    kill_after(command.spawn().unwrap(), moment)
}
