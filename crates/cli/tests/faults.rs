//! Faults while a lab is deployed or measured: each is a one-line error with a hint, the measured data is kept, and
//! the lab is down, or up with `--keep`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{
    Bench, enter, enter_with_vms, finish, finished, labelled, namespaces, signal, text, tool,
    until, whole,
};
use serde_json::Value;

/// Measures `b` to `a` of this kind, `replicates` times.
fn study(bench: &Bench, kind: &str, measurement: &str, replicates: u32) -> String {
    let text = format!(
        "name: faulty\nlab:\n  name: NAME\n  topology:\n    kinds: {{vm: {{memory: 256MiB}}}}\n    \
         nodes: {{a: {{kind: {kind}}}, b: {{kind: native}}}}\n    links: [{{endpoints: \
         [\"a:eth0\", \"b:eth0\"]}}]\nmeasurements:\n  - {{from: b, to: a, warmup: 10ms, \
         {measurement}}}\nreplicates: {replicates}\n"
    );
    bench.file(kind, &text)
}

/// The only run in a directory.
fn only_run(runs: &Path) -> PathBuf {
    let mut all: Vec<PathBuf> = fs::read_dir(runs)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A file system of its own size in this mount namespace.
fn disk(bench: &Bench, name: &str, size: &str) -> PathBuf {
    let path = bench.root().join(name);
    fs::create_dir(&path).unwrap();
    let size = format!("mode=755,size={size}");
    tool(&[
        "mount",
        "-t",
        "tmpfs",
        "-o",
        &size,
        "small",
        path.to_str().unwrap(),
    ]);
    bench.take_as_given();
    path
}

#[test]
fn a_full_disk_ends_a_run_and_keeps_its_data() {
    enter("a_full_disk_ends_a_run_and_keeps_its_data", |bench| {
        let runs = disk(bench, "small", "600k");
        let measurement = "name: p, probe: packets, rate: 50000, duration: 200ms";
        let study = study(bench, "native", measurement, 40);
        let said = bench.latlab(&["run", &study, "--runs", runs.to_str().unwrap()]);
        said.ended_badly(2, "No space left on device", "free some space");
        assert!(said.err.contains("latlab report --print-only"), "{said:#?}");
        bench.assert_clean();
        let run = only_run(&runs);
        let manifest = json(&run.join("manifest.json"));
        assert_eq!(manifest["state"]["state"], "incomplete", "{manifest:#}");
        let reason = manifest["state"]["reason"].as_str().unwrap();
        assert!(reason.contains("No space left"), "{reason}");
        let args = [
            "report",
            run.to_str().unwrap(),
            "--print-only",
            "--format",
            "json",
        ];
        let summary: Value = serde_json::from_str(&bench.latlab(&args).good().out).unwrap();
        let kept = fs::read_dir(run.join("trials")).unwrap().flatten();
        let kept = kept
            .filter(|trial| trial.path().join("trial.json").exists())
            .count();
        println!("    {kept} of 40 trials were measured and are kept");
        assert!((1..40).contains(&kept));
        assert_eq!(
            summary["trials"].as_array().map_or(0, Vec::len),
            kept,
            "{summary:#}"
        );
        // The failed write may have left room for a page.
        fs::write(runs.join("filling"), vec![0; 1 << 20]).unwrap_err();
        let report = bench.latlab(&["report", run.to_str().unwrap()]);
        report.refused(2, "No space left on device", "--print-only");

        // A disk that is full from the first: no half of a run is left on it.
        let full = disk(bench, "full", "64k");
        let said = bench.latlab(&["run", &study, "--runs", full.to_str().unwrap()]);
        said.refused(2, "No space left on device", "--runs");
        assert_eq!(fs::read_dir(&full).unwrap().count(), 0);
        bench.assert_clean();
    });
}

#[test]
fn places_that_take_no_file_are_named() {
    enter("places_that_take_no_file_are_named", |bench| {
        let lab = "name: NAME\ntopology: {nodes: {a: {kind: container}}}\n";
        let file = bench.file("lab", lab);
        let full = disk(bench, "full", "64k");
        fs::create_dir(full.join("labs")).unwrap();
        // Files take pages, directories none: the claim fits, the journal does not.
        fs::write(full.join("filling"), vec![0; 256 << 10]).unwrap_err();
        let with = |variable: &str, place: &Path| {
            finish(bench.command(&["deploy", &file]).env(variable, place))
        };
        with("LATLAB_STATE_DIR", &full).refused(2, "No space left", "free some space");
        assert_eq!(
            fs::read_dir(full.join("labs")).unwrap().count(),
            0,
            "the name is free again"
        );
        with("LATLAB_RUN_DIR", &full).refused(2, "No space left", "free some space");
        bench.assert_clean();
        let sealed = disk(bench, "sealed", "64k");
        tool(&["mount", "-o", "remount,ro", sealed.to_str().unwrap()]);
        with("LATLAB_STATE_DIR", &sealed).refused(2, "Read-only", "LATLAB_STATE_DIR");
        with("LATLAB_RUN_DIR", &sealed).refused(2, "Read-only", "LATLAB_RUN_DIR");
        bench.assert_clean();
    });
}

/// Starts a run and waits until it measures.
fn measuring(bench: &Bench, args: &[&str]) -> Child {
    let mut command = bench.command(args);
    let run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a probe runs", || {
        labelled().into_iter().any(|pid| {
            let words = text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
            words.contains("\0probe\0")
        })
    });
    run
}

#[test]
fn a_node_that_dies_under_a_measurement_fails_its_trial() {
    enter(
        "a_node_that_dies_under_a_measurement_fails_its_trial",
        |bench| {
            let measurement = "name: rr, probe: rr, protocol: udp, duration: 2s";
            let kinds: &[(&str, &str)] = match whole() {
                true => &[
                    ("container", "the container has ended"),
                    ("vm", "guest a ended (QEMU"),
                ],
                false => &[("container", "the container has ended")],
            };
            for (kind, words) in kinds {
                for keep in [false, true] {
                    println!("{kind}, keep: {keep}");
                    let study = study(bench, kind, measurement, 1);
                    let runs = bench.root().join(format!("runs-{kind}-{keep}"));
                    let mut args = vec!["run", &study, "--runs", runs.to_str().unwrap()];
                    args.extend(keep.then_some("--keep"));
                    let run = measuring(bench, &args);
                    let lab = bench.name(kind);
                    let state = json(&bench.labs().join(&lab).join("state.json"));
                    // The node's first process, or its QEMU: recorded, in this process namespace.
                    tool(&["kill", "-KILL", &state["nodes"][0]["pid"].to_string()]);
                    let said = finished(run);
                    assert!(
                        said.err.contains(&format!("failed: node `a`: {words}")),
                        "{said:#?}"
                    );
                    let trial = json(&only_run(&runs).join("trials/0001/trial.json"));
                    assert!(trial.to_string().contains(words), "{trial:#}");
                    if keep {
                        said.ended_badly(1, "its lab is still up", "latlab destroy");
                        let rows = bench.latlab(&["inspect", &lab, "-f", "csv"]).good().out;
                        assert!(
                            rows.contains("exited") && rows.contains("running"),
                            "{rows}"
                        );
                        bench.exec(&lab, "b", &["true"]).good();
                        let dead = bench.exec(&lab, "a", &["true"]);
                        assert!(dead.err.contains("ended"), "{dead:#?}");
                        dead.refused(2, "node `a`", bench.run_dir().to_str().unwrap());
                        bench.latlab(&["destroy", &lab]).good();
                    } else {
                        said.ended_badly(1, "1 of 1 trials failed", "--keep");
                    }
                    bench.assert_clean();
                }
            }
        },
    );
}

#[test]
fn an_interrupted_run_keeps_its_finished_trials() {
    enter("an_interrupted_run_keeps_its_finished_trials", |bench| {
        let runs = bench.root().join("runs");
        let measurement = "name: rr, probe: rr, protocol: udp, duration: 300ms";
        let study = study(bench, "native", measurement, 50);
        let run = measuring(bench, &["run", &study, "--runs", runs.to_str().unwrap()]);
        until("the first trial is written", || {
            let runs = fs::read_dir(&runs).into_iter().flatten().flatten();
            runs.into_iter()
                .any(|run| run.path().join("trials/0001/trial.json").exists())
        });
        signal(run.id(), "INT");
        let said = finished(run);
        said.ended_badly(130, "interrupted", "starts a new one");
        bench.assert_clean();
        let run = only_run(&runs);
        let manifest = json(&run.join("manifest.json"));
        assert_eq!(manifest["state"]["state"], "incomplete", "{manifest:#}");
        let report = bench.latlab(&["report", run.to_str().unwrap()]).good();
        assert!(report.out.contains("(incomplete)"), "{}", report.out);
        // The second Ctrl-C ends it at once; then the lab is for `destroy`.
        let other = bench.root().join("other");
        let run = measuring(bench, &["run", &study, "--runs", other.to_str().unwrap()]);
        signal(run.id(), "INT");
        signal(run.id(), "INT");
        let said = finished(run);
        assert_eq!(said.code, 130, "{said:#?}");
        bench.latlab(&["destroy", "--all", "-y"]).good();
        bench.assert_clean();
    });
}

#[test]
fn a_run_that_is_interrupted_while_it_deploys_keeps_its_lab_if_it_is_to() {
    const NAME: &str = "a_run_that_is_interrupted_while_it_deploys_keeps_its_lab_if_it_is_to";
    enter(NAME, |bench| {
        let study = study(bench, "native", "name: rr, probe: rr, duration: 1s", 1);
        let text = fs::read_to_string(&study).unwrap();
        let slow = text.replace("b: {kind: native}", "b: {kind: native, exec: 'sleep 600'}");
        fs::write(&study, slow).unwrap();
        let runs = bench.root().join("runs");
        let mut run = bench.command(&["run", "--keep", &study, "--runs"]);
        let run = run.arg(&runs).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = run.spawn().unwrap();
        until("the node's command runs", || {
            let words = |pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut all = labelled().into_iter();
            all.any(|pid| words(pid) == b"sleep\x00600\x00")
        });
        signal(run.id(), "INT");
        let said = finished(run);
        said.ended_badly(130, "interrupted: ", "latlab inspect");
        assert!(said.err.contains("its lab is still up"), "{said:#?}");
        let manifest = json(&only_run(&runs).join("manifest.json"));
        assert_eq!(manifest["state"]["reason"], "it was interrupted");
        let lab = bench.name("native");
        bench.latlab(&["inspect", &lab]).good();
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

/// A program that a study needs and the node's image does not have.
#[test]
fn missing_requirements_of_a_measurement_are_named() {
    enter("missing_requirements_of_a_measurement_are_named", |bench| {
        let image = bench.root().join("files/empty");
        fs::create_dir(&image).unwrap();
        let text = "name: faulty\nlab:\n  name: NAME\n  topology:\n    nodes: {a: {kind: container, \
                    image: ./empty}, b: {kind: native}}\n    links: [{endpoints: [\"a:eth0\", \
                    \"b:eth0\"]}]\nmeasurements:\n  - {name: s, from: b, to: a, probe: stream, \
                    duration: 100ms}\nreplicates: 1\n";
        let study = bench.file("bare", text);
        let runs = bench.root().join("runs");
        let said = bench.latlab(&["run", &study, "--runs", runs.to_str().unwrap()]);
        assert!(said.err.contains("node `a`: iperf3"), "{said:#?}");
        assert!(
            said.err.contains("install iperf3 in its image"),
            "{said:#?}"
        );
        said.ended_badly(1, "1 of 1 trials failed", "--keep");
        bench.assert_clean();
    });
}

#[test]
fn a_guest_that_panics_is_quoted() {
    enter_with_vms("a_guest_that_panics_is_quoted", |bench| {
        // With and without a reboot on panic, which ends QEMU.
        for panic in ["panic=-1", "panic=0"] {
            let file = bench.file(
                "panic",
                &format!(
                    "name: NAME\ntopology:\n  nodes:\n    a: {{kind: vm, memory: 256MiB, boot: \
                     [\"rdinit=/nonexistent\", \"{panic}\"]}}\n    b: {{kind: native}}\n"
                ),
            );
            let said = bench.latlab(&["deploy", &file]);
            said.refused(2, "node `a`: the kernel of guest a panicked: ", "--keep");
            bench.assert_clean();
            let kept = bench.latlab(&["deploy", "--keep", &file]);
            let lab = bench.name("panic");
            let logs = bench.run_dir().join(&lab).join("nodes");
            kept.refused(2, "Kernel panic - not syncing", logs.to_str().unwrap());
            let console = text(&fs::read(logs.join("a/console.log")).unwrap());
            assert!(console.contains("Kernel panic"), "{console}");
            let rows = bench.latlab(&["inspect", &lab, "-f", "csv"]).good().out;
            assert!(
                rows.contains("failed") && rows.contains("running"),
                "{rows}"
            );
            bench.exec(&lab, "b", &["true"]).good();
            bench
                .exec(&lab, "a", &["true"])
                .refused(2, "did not come up", logs.to_str().unwrap());
            bench.latlab(&["destroy", &lab]).good();
            bench.assert_clean();
        }
    });
}

#[test]
fn a_cpu_that_qemu_does_not_give_is_refused() {
    enter("a_cpu_that_qemu_does_not_give_is_refused", |bench| {
        for (hardware, reason) in [
            ("cpu: i8086", "unable to find CPU model 'i8086'"),
            ("features: [+nonsense]", "nonsense' not found"),
            ("cpu: EPYC-Milan", "doesn't support requested feature"),
        ] {
            let file = bench.file(
                "cpu",
                &format!(
                    "name: NAME\ntopology: {{nodes: {{a: {{kind: vm, memory: 256MiB, \
                     acceleration: tcg, hardware: {{{hardware}}}}}}}}}\n"
                ),
            );
            let said = bench.latlab(&["deploy", &file]);
            said.refused(2, "node `a`: QEMU gives no guest the CPU `", "-cpu help");
            assert!(said.err.contains(reason), "{said:#?}");
            bench.assert_clean();
        }
    });
}

#[test]
fn a_silent_agent_times_out() {
    enter_with_vms("a_silent_agent_times_out", |bench| {
        let lab = "name: NAME\ntopology: {nodes: {a: {kind: vm, memory: 256MiB}}}\n";
        let file = bench.file("mute", lab);
        let is_qemu = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"qemu-"))
        };
        let qemu = || labelled().into_iter().find(is_qemu);
        let mut command = bench.command(&["deploy", &file]);
        command.env("LATLAB_BOOT_TIMEOUT", "3");
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("QEMU runs", || qemu().is_some());
        // Stopped, it is as silent as a guest that hangs.
        signal(qemu().unwrap(), "STOP");
        finished(child).refused(2, "did not answer within 3", "LATLAB_BOOT_TIMEOUT");
        bench.assert_clean();

        let lab = bench.deploy("mute", lab);
        bench.exec(&lab, "a", &["true"]).good();
        signal(qemu().unwrap(), "STOP");
        let mute = bench.exec(&lab, "a", &["true"]);
        mute.refused(2, "did not answer within 30", "console.log");
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

/// The tests' own: one that fails is run on purpose.
#[test]
fn a_test_that_fails_leaves_no_directory() {
    const NAME: &str = "a_test_that_fails_leaves_no_directory";
    const ON_PURPOSE: &str = "LATLAB_TEST_FAILS";
    if std::env::var_os(ON_PURPOSE).is_some() {
        return enter(NAME, |bench| panic!("root={}", bench.root().display()));
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to make namespaces");
        return;
    }
    let mut failing = Command::new(std::env::current_exe().unwrap());
    let failing = failing.args(namespaces::test_arguments(NAME));
    let said = finish(failing.env(ON_PURPOSE, "1"));
    assert_ne!(said.code, 0, "{said:#?}");
    let root = said.err.lines().find_map(|line| line.strip_prefix("root="));
    let root = root.unwrap_or_else(|| panic!("{said:#?}"));
    assert!(root.starts_with("/tmp/latlab-cli-"), "{root}");
    assert!(!Path::new(root).exists(), "{root}");
}
