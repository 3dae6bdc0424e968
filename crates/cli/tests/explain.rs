//! The causes of slow packets, through the real binary: the same answer for every user, and a clear statement where a
//! cause cannot be known.

mod common;
#[path = "seccomp/sys.rs"]
mod sys;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, enter, finish, tool};
use serde_json::Value;

const STUDY: &str = "name: slow\nlab:\n  name: NAME\n  topology:\n    nodes:\n      \
    client: {kind: native, exec: [\"ip route add 10.9.2.0/24 dev eth0\"]}\n      \
    device: {kind: native}\n      \
    server: {kind: native, exec: [\"ip route add 10.9.1.0/24 dev eth0\"]}\n    links:\n      \
    - endpoints:\n          - {node: client, interface: eth0, ipv4: 10.9.1.1/24}\n          \
    - {node: device, interface: in, ipv4: 10.9.1.2/24}\n      \
    - endpoints:\n          - {node: device, interface: out, ipv4: 10.9.2.2/24}\n          \
    - {node: server, interface: eth0, ipv4: 10.9.2.1/24}\nmeasurements:\n  \
    - {probe: forward, device: af-packet, from: client, through: device, to: server, rate: 5000, \
    duration: 600ms}\nreplicates: 1\n";

/// Runs the study; its directory.
fn run(bench: &Bench) -> PathBuf {
    let runs = bench.root().join("runs");
    let study = bench.file("slow", STUDY);
    bench
        .latlab(&["run", &study, "--runs", runs.to_str().unwrap()])
        .good();
    fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path()
}

fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

/// Every form of the answer about a run, by a program that `start` begins.
fn answers(run: &Path, scratch: &Path, start: impl Fn() -> Command) -> Vec<Vec<u8>> {
    let files = ["perfetto", "pcapng"].map(|name| scratch.join(name));
    let run = run.to_str().unwrap();
    let mut all: Vec<Vec<u8>> = ["table", "json", "csv"]
        .into_iter()
        .map(|format| {
            let mut command = start();
            command.args(["explain", run, "--format", format, "--worst", "200"]);
            finish(&mut command).good().out.into_bytes()
        })
        .collect();
    let mut command = start();
    command.args(["explain", run, "--perfetto"]).arg(&files[0]);
    finish(command.arg("--pcapng").arg(&files[1])).good();
    all.extend(files.map(|file| fs::read(file).unwrap()));
    all
}

/// A device that forwards nothing is no slow one: the trial fails, with what interfaces counted. So does one
/// whose sender never learns where to send to.
#[test]
fn a_device_that_drops_everything_is_reported_with_its_interfaces() {
    let name = "a_device_that_drops_everything_is_reported_with_its_interfaces";
    enter(name, |b| {
        let silent = STUDY.replace("device: af-packet, ", "");
        let known = "exec: [\"ip neigh add 10.9.2.1 lladdr 02:00:00:00:00:09 dev eth0\", ";
        let blocked = silent.replacen("exec: [", known, 1);
        for (study, words) in [
            (silent, "no host at eth0 answers for 10.9.2.1"),
            (
                blocked,
                "packets came through `device`; its interfaces counted: in ",
            ),
        ] {
            let runs = b.root().join("runs");
            let study = b.file("blocked", &study);
            let said = b.latlab(&["run", &study, "--runs", runs.to_str().unwrap()]);
            assert_eq!(said.code, 1, "{said:#?}");
            assert!(said.err.contains(words), "{words}: {said:#?}");
        }
    });
}

#[test]
fn an_explanation_needs_neither_root_nor_this_machine() {
    enter("an_explanation_needs_neither_root_nor_this_machine", |b| {
        let run = run(b);
        let own = b.root().join("own");
        fs::create_dir(&own).unwrap();
        let here = answers(&run, &own, || b.command(&[]));
        assert!(here.iter().all(|answer| answer.len() > 100));

        // Elsewhere: another directory and user, without privileges, network or this machine's clock.
        let there = b.root().join("there");
        fs::create_dir(&there).unwrap();
        let copy = there.join("copy");
        tool(&["cp", "-r", run.to_str().unwrap(), copy.to_str().unwrap()]);
        let binary = there.join("latlab");
        fs::copy(env!("CARGO_BIN_EXE_latlab"), &binary).unwrap();
        tool(&["chown", "-R", "65534:65534", there.to_str().unwrap()]);
        let as_nobody = || {
            let mut command = Command::new("unshare");
            command
                .args(["--net", "--time", "--boottime", "9999"])
                .args(["--monotonic", "9999", "setpriv"])
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
                .arg(&binary)
                .current_dir(&there)
                .env_clear()
                .env("PATH", "/usr/bin:/bin");
            command
        };
        let elsewhere = answers(&copy, &there, as_nobody);
        assert!(here == elsewhere, "the answers differ");
    });
}

#[test]
fn without_type_information_packets_are_timed_and_nothing_is_blamed() {
    const NAME: &str = "without_type_information_packets_are_timed_and_nothing_is_blamed";
    enter(NAME, |b| {
        // In this test's own mount namespace.
        tool(&["mount", "-t", "tmpfs", "none", "/sys/kernel/btf"]);
        let run = run(b);
        tool(&["umount", "/sys/kernel/btf"]);
        let summary = summary(&run);
        let tail = &summary["tails"][0];
        assert!(tail["packets"].as_u64().unwrap() > 2000, "{tail:#}");
        let unknown = tail["unknown"].to_string();
        assert!(unknown.contains("does not describe its types"), "{unknown}");
        let causes = tail["causes"].as_array().unwrap();
        let kinds: Vec<&str> = causes.iter().filter_map(|c| c["kind"].as_str()).collect();
        assert_eq!(kinds, ["not-recorded"]);
        let said = b.latlab(&["explain", run.to_str().unwrap()]).good().out;
        assert!(said.contains("what is not known"), "{said}");
        let notes = summary["notes"].to_string();
        assert!(notes.contains("unknown-causes"), "{notes}");
    });
}

#[test]
fn without_bpf_a_measurement_by_taps_is_refused_before_anything_is_changed() {
    const NAME: &str = "without_bpf_a_measurement_by_taps_is_refused_before_anything_is_changed";
    enter(NAME, |b| {
        let study = b.file("slow", STUDY);
        let runs = b.root().join("runs");
        let mut command = b.command(&["run", &study, "--runs", runs.to_str().unwrap()]);
        sys::without_bpf(&mut command);
        let said = finish(&mut command);
        assert_eq!(said.code, 2, "{said:#?}");
        for words in [
            "needs taps, and BPF does not work here",
            "hint: `probe: packets`",
        ] {
            assert!(said.err.contains(words), "{said:#?}");
        }
        assert!(!runs.exists() || fs::read_dir(&runs).unwrap().next().is_none());
    });
}

/// Nothing tells here when a page fault ends, so none is ever named.
#[test]
fn without_page_fault_ends_no_page_fault_is_blamed() {
    enter("without_page_fault_ends_no_page_fault_is_blamed", |b| {
        let study = b.file("slow", STUDY);
        let runs = b.root().join("runs");
        let mut command = b.command(&["run", &study, "--runs", runs.to_str().unwrap()]);
        sys::without_perf(&mut command);
        finish(&mut command).good();
        let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
        let tail = &summary(&run)["tails"][0];
        let unknown = tail["unknown"].to_string();
        for point in ["page fault's end", "page_fault_user"] {
            assert!(unknown.contains(point), "{unknown}");
        }
        let causes = tail["causes"].as_array().unwrap();
        assert!(causes.len() > 1, "{causes:?}");
        assert!(causes.iter().all(|cause| cause["kind"] != "page-fault"));
    });
}

#[test]
fn a_truncated_table_is_named_and_its_trial_left_out() {
    enter("a_truncated_table_is_named_and_its_trial_left_out", |b| {
        let run = run(b);
        let path = run.join("trials/0001/passages.parquet");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 100]).unwrap();
        let named = run.to_str().unwrap();
        let said = b.latlab(&["explain", named]);
        said.refused(2, "passages.parquet", "copied completely");
        b.latlab(&["report", named]).good();
        let summary = summary(&run);
        assert_eq!(summary["tails"], Value::Null);
        let notes = summary["notes"].to_string();
        assert!(notes.contains("not-explained"), "{notes}");
    });
}
