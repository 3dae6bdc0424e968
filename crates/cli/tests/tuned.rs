//! A lab that tunes the machine: its nodes run on processors that nobody else has, and whatever happens to
//! it, the machine is afterwards as it was.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{Bench, enter, finished, signal, whole};

const LAB: &str = "name: NAME\ntuning: isolated\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}}\n  \
                   links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";

/// Files that the profile writes on every machine, or on those that have them.
const FILES: [&str; 8] = [
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/dirty_writeback_centisecs",
    "/proc/sys/kernel/timer_migration",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance",
];

fn settings() -> Vec<String> {
    FILES
        .map(|file| fs::read_to_string(file).unwrap_or_default())
        .to_vec()
}

fn partition() -> bool {
    let roots = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"];
    roots
        .iter()
        .any(|root| Path::new(root).join("latlab.isolated").exists())
}

#[test]
fn a_tuned_lab_has_its_processors_and_gives_everything_back() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        println!("skipped: a machine with one processor has none to isolate");
        return;
    }
    enter(
        "a_tuned_lab_has_its_processors_and_gives_everything_back",
        |bench| {
            let before = settings();
            let lab = bench.deploy("tuned", LAB);
            assert_ne!(settings(), before, "its profile changes something");
            for node in ["a", "b"] {
                let said = bench.exec(
                    &lab,
                    node,
                    &["grep", "Cpus_allowed_list", "/proc/self/status"],
                );
                let allowed = said.good().out;
                let first = allowed.split_whitespace().nth(1).unwrap();
                assert!(
                    !first.starts_with('0'),
                    "{node} is off the host's processor: {allowed}"
                );
            }
            bench.latlab(&["tune", "verify"]).good();
            // Its knobs are the lab's: a person's revert leaves them.
            bench.latlab(&["tune", "revert"]).good();
            assert_ne!(settings(), before);
            bench.latlab(&["destroy", &lab]).good();
            assert_eq!(settings(), before);
            assert!(!partition());
            bench.assert_clean();
            killed(bench, &before);
        },
    );
}

/// SIGKILL at moments all over a deployment.
fn killed(bench: &Bench, before: &[String]) {
    let file = bench.file("killed", LAB);
    let rounds = if whole() { 30 } else { 6 };
    for round in 0..rounds {
        let mut command = bench.command(&["deploy", &file]);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(3 * round * 30 / rounds));
        signal(child.id(), "KILL");
        finished(child);
        bench.latlab(&["destroy", "--all", "-y"]).good();
        assert_eq!(settings(), before, "round {round}");
        assert!(!partition(), "round {round}");
        bench.assert_clean();
    }
}
