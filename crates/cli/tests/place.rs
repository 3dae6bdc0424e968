//! `latlab place` on machines that are only described: the table, the document, and a refusal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latlab_model::plan::{Blueprint, Share};

fn model_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests")
}

fn place(lab: &str, machine: &str, more: &[&str]) -> Output {
    let tests = model_tests();
    Command::new(env!("CARGO_BIN_EXE_latlab"))
        .arg("place")
        .arg(tests.join("places").join(lab))
        .arg("--facts")
        .arg(tests.join("facts").join(machine))
        .args(more)
        .output()
        .expect("latlab starts")
}

#[test]
fn every_placement_has_a_line_and_a_reason() {
    let output = place("guests.yaml", "xeon-e5-2665.json", &[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let find = |what: &str| {
        let line = text.lines().find(|line| line.starts_with(what));
        line.unwrap_or_else(|| panic!("no {what} in\n{text}"))
            .to_string()
    };
    for (what, words) in [
        ("housekeeping ", "stays with the host"),
        ("pool ", "tuning `realtime`"),
        ("idle ", "share its units"),
        ("interrupts of eth1", "memory node 1"),
        ("left ", "a core for each of its 2 virtual CPUs"),
        ("left vCPU 1", "one of the node's"),
        ("left emulator", "apart from the virtual CPUs"),
        ("plain (pool)", "asks for no cores"),
    ] {
        assert!(find(what).contains(words), "{}", find(what));
    }
}

#[test]
fn the_document_is_the_blueprint() {
    let output = place("pool.yaml", "small.json", &["--format", "json"]);
    assert!(output.status.success());
    let found: Blueprint = serde_json::from_slice(&output.stdout).expect("a blueprint");
    assert_eq!(found.housekeeping.cpus.to_string(), "0");
    assert_eq!(found.pool.expect("a pool").cpus.to_string(), "1");
    assert!(found.nodes.iter().all(|n| n.share == Share::Pool));
}

#[test]
fn what_does_not_fit_is_refused_with_the_nearest_that_does() {
    let output = place("slices.yaml", "small.json", &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("`guest` with `cpus: 1` on CPU 1"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
}

/// Placement on this machine needs no root.
#[test]
fn placement_works_for_this_machine() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/pair.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_latlab"))
        .arg("place")
        .arg(lab)
        .output();
    let output = output.expect("latlab starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("housekeeping"));
}

#[test]
fn a_broken_user_profile_is_reported_with_its_place() {
    let scratch = std::env::temp_dir().join(format!("latlab-broken-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a directory");
    let profile = scratch.join("mine.yaml");
    std::fs::write(&profile, "name: mine\nknobs:\n  swappines: 1\n").expect("a profile");
    let lab = scratch.join("lab.yaml");
    let text = "name: x\ntuning: mine without thp\ntopology:\n  nodes: {a: {kind: native}}\n";
    std::fs::write(&lab, text).expect("a lab");
    let said = |verb: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_latlab"))
            .args([verb, &lab.display().to_string()])
            .env("LATLAB_PROFILE_DIR", &scratch)
            .env("LATLAB_STATE_DIR", scratch.join("state"))
            .output()
            .expect("latlab starts");
        assert_eq!(output.status.code(), Some(2), "{verb}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for verb in ["place", "validate", "deploy"] {
        let said = said(verb);
        let place = format!("{}:3:3: ", profile.display());
        assert!(said.contains(&place), "{verb}: {said}");
        assert!(said.contains("unknown knob `swappines`"), "{verb}: {said}");
        assert!(
            said.contains("did you mean `swappiness`?"),
            "{verb}: {said}"
        );
    }
    // One that is not there is a mistake of the lab.
    std::fs::remove_file(&profile).expect("it is there");
    let said = said("validate");
    std::fs::remove_dir_all(&scratch).expect("it is ours");
    assert!(said.contains("lab.yaml:2:9: "), "{said}");
}
