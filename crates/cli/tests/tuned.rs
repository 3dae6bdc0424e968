//! A lab that tunes the machine: its nodes run on dedicated CPUs, and however it ends, the machine is restored.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use common::{Bench, enter, finished, guests, signal, whole};

/// There is one machine to tune.
static ALONE: Mutex<()> = Mutex::new(());

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
fn a_tuned_lab_has_dedicated_cpus_and_restores_everything() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        println!("skipped: a machine with one processor has none to isolate");
        return;
    }
    let _alone = ALONE.lock();
    enter(
        "a_tuned_lab_has_dedicated_cpus_and_restores_everything",
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

/// The user keeps a CPU quiet already: the lab gets it, and leaves it as it was.
#[test]
fn a_tuned_lab_runs_on_cpus_that_the_user_keeps_quiet() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        println!("skipped: a machine with one processor has none to isolate");
        return;
    }
    let _alone = ALONE.lock();
    enter(
        "a_tuned_lab_runs_on_cpus_that_the_user_keeps_quiet",
        |bench| {
            let before = settings();
            let quiet = format!("1-{}", processors - 1);
            bench
                .latlab(&["tune", "apply", "isolated", "--cpus", &quiet])
                .good();
            let tuned = settings();
            assert_ne!(tuned, before);
            let lab = bench.deploy("beside", LAB);
            let said = bench.exec(
                &lab,
                "a",
                &["grep", "Cpus_allowed_list", "/proc/self/status"],
            );
            let allowed = said.good().out;
            let first = allowed.split_whitespace().nth(1).unwrap();
            assert!(!first.starts_with('0'), "{allowed}");
            bench.latlab(&["tune", "verify"]).good();
            bench.latlab(&["destroy", &lab]).good();
            assert_eq!(settings(), tuned, "the person's tuning stays");
            bench.latlab(&["tune", "verify"]).good();
            assert!(partition());
            // The other way round: the person leaves first.
            let lab = bench.deploy("after", LAB);
            bench.latlab(&["tune", "revert"]).good();
            assert!(partition());
            bench.latlab(&["tune", "verify"]).good();
            bench.latlab(&["destroy", &lab]).good();
            assert_eq!(settings(), before);
            assert!(!partition());
            bench.assert_clean();
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

const GUEST: &str = "name: NAME\ntuning: isolated\ntopology:\n  nodes: {g: {kind: vm, cpus: 2, memory: 512MiB}, n: {kind: native}}\n  \
                     links: [{endpoints: [\"g:eth0\", \"n:eth0\"]}]\n";

/// Inside a VM the lab's profile is in force too, on the guest's own CPUs.
#[test]
fn a_tuned_guest_is_tuned_from_the_inside() {
    let asked = whole() || guests();
    if !asked || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let _alone = ALONE.lock();
    enter("a_tuned_guest_is_tuned_from_the_inside", |bench| {
        let before = settings();
        let lab = bench.deploy("inside", GUEST);
        let inside = |line: &str| bench.exec(&lab, "g", &["sh", "-c", line]).good().out;
        // The kernel's view.
        let told = inside(
            "cd /proc/sys; cat vm/swappiness kernel/timer_migration vm/stat_interval
             cat /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask
             cd /sys/fs/cgroup/latlab.isolated; cat cpuset.cpus cpuset.cpus.partition",
        );
        let told: Vec<&str> = told.lines().collect();
        assert_eq!(told, ["1", "0", "120", "1", "1", "1", "isolated"]);
        // Commands from the host run on the quiet CPU, the guest's own processes do not.
        let status = inside("grep Cpus_allowed_list /proc/self/status; cat /proc/self/cgroup");
        assert!(status.contains("Cpus_allowed_list:\t1\n"), "{status}");
        assert!(status.ends_with("0::/latlab.isolated\n"), "{status}");
        let agent = inside("grep Cpus_allowed_list /proc/1/status");
        assert_eq!(agent, "Cpus_allowed_list:\t0\n");
        let missing = bench.exec(&lab, "g", &["no-such-program"]);
        missing.refused(127, "no-such-program", "install it in the image");
        // latlab's view, of the guest and not of the host.
        let place = ["--lab", &lab, "--node", "g"];
        let verb = |verb: &str, more: &[&str]| {
            let words = [&["tune", verb], &place[..], more].concat();
            bench.latlab(&words)
        };
        verb("verify", &[]).good();
        let shown = verb("show", &["swappiness"]).good().out;
        assert!(shown.contains("1 for user"), "{shown}");
        inside("echo 60 > /proc/sys/vm/swappiness");
        let drift = verb("verify", &[]);
        assert_eq!(drift.code, 1, "{drift:?}");
        assert!(drift.out.contains("swappiness"), "{drift:?}");
        bench.latlab(&["tune", "verify"]).good();
        let other = bench.latlab(&["tune", "show", "--lab", &lab, "--node", "n"]);
        assert_eq!(other.code, 2, "{other:?}");
        assert!(
            other.err.contains("node `n` has no knobs of its own"),
            "{other:?}"
        );
        bench.latlab(&["destroy", &lab]).good();
        assert_eq!(settings(), before);
        bench.assert_clean();
    });
}
