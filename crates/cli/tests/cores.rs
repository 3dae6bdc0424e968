//! Cores are given once, over all labs that are up: what a lab was given is where its processes may
//! run, no other lab is given it, others' nodes keep off it, and it is free again when the lab is gone.

mod common;

use std::fs;

use common::{Bench, enter, enter_with_vms};
use latlab_model::plan::{Blueprint, Share};
use latlab_model::units::CpuList;

const OWN: &str =
    "name: NAME\ntopology:\n  nodes: {a: {kind: native, isolate: true, cpus: COUNT}}\n";
const PLAIN: &str = "name: NAME\ntopology:\n  nodes: {a: {kind: native}}\n";
const GUEST: &str = "name: NAME\ntopology:\n  nodes: {a: {kind: vm, isolate: true, memory: 256MiB, tuning: default}}\n";

/// The usable CPUs without the first.
fn all_but_first() -> CpuList {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let list = CpuList::parse(list.expect("a list")).expect("a list");
    CpuList::new(list.iter().skip(1).collect())
}

fn allowed_in(bench: &Bench, lab: &str, node: &str) -> String {
    let status = [
        "sed",
        "-n",
        "s/^Cpus_allowed_list:[[:space:]]*//p",
        "/proc/self/status",
    ];
    bench.exec(lab, node, &status).good().out.trim().to_string()
}

#[test]
fn a_core_belongs_to_one_lab() {
    let rest = all_but_first();
    if rest.is_empty() {
        eprintln!("with one processor there is none to give");
        return;
    }
    enter("a_core_belongs_to_one_lab", |bench| {
        let own = |count: usize| OWN.replace("COUNT", &count.to_string());
        let file = bench.file("other", &own(1));
        let placed = bench
            .latlab(&["place", &file, "--format", "json"])
            .good()
            .out;
        let placed: Blueprint = serde_json::from_str(&placed).expect("a blueprint");
        assert_eq!(placed.nodes[0].share, Share::Own);
        // All but the host's core, with as many threads as there are.
        let first = bench.latlab(&[
            "place",
            &bench.file("probe", &own(rest.len())),
            "--format",
            "json",
        ]);
        let count = match first.code {
            0 => rest.len(),
            // Threads of the host's core cannot be given.
            _ => 1,
        };
        let lab = bench.deploy("first", &own(count));
        let state = fs::read(bench.labs().join(&lab).join("state.json")).expect("a state");
        let state: latlab_model::state::LabState = serde_json::from_slice(&state).expect("a state");
        let given = state
            .plan
            .blueprint
            .node("a")
            .expect("a place")
            .cores
            .cpus
            .clone();
        assert_eq!(allowed_in(bench, &lab, "a"), given.to_string());
        if count == rest.len() {
            let refused = bench.latlab(&["place", &file]);
            assert_eq!(refused.code, 2, "{refused:#?}");
            assert!(
                refused
                    .err
                    .contains("wants 1 exclusive CPU(s); 0 of this machine's"),
                "{refused:#?}"
            );
            let refused = bench.latlab(&["deploy", &file]);
            assert_eq!(refused.code, 2, "{refused:#?}");
        }
        let plain = bench.deploy("plain", PLAIN);
        let others = CpuList::parse(&allowed_in(bench, &plain, "a")).expect("a list");
        assert!(
            others.iter().all(|cpu| !given.contains(cpu)),
            "{others} and {given}"
        );
        for name in [&lab, &plain] {
            bench.latlab(&["destroy", name]).good();
        }
        bench.latlab(&["place", &file]).good();
    });
}

/// The vCPU runs on its core, all other threads of QEMU on the host's.
#[test]
fn a_guests_threads_run_where_the_blueprint_places_them() {
    if all_but_first().is_empty() {
        eprintln!("skipped: needs two processors");
        return;
    }
    enter_with_vms(
        "a_guests_threads_run_where_the_blueprint_places_them",
        |bench| {
            let lab = bench.deploy("guest", GUEST);
            let state = fs::read(bench.labs().join(&lab).join("state.json")).expect("a state");
            let state: latlab_model::state::LabState =
                serde_json::from_slice(&state).expect("a state");
            let place = state.plan.blueprint.node("a").expect("a place");
            let emulator = place
                .emulator
                .as_ref()
                .expect("an emulator")
                .cpus
                .to_string();
            let process = state.nodes[0].pid.expect("QEMU");
            let tasks = fs::read_dir(format!("/proc/{process}/task"))
                .expect("threads")
                .flatten();
            let mut seen = (0, 0);
            for task in tasks {
                let read =
                    |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
                let status = read("status");
                let allowed = status
                    .lines()
                    .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
                let Some(allowed) = allowed.map(str::trim) else {
                    continue;
                };
                // QEMU names the threads of its vCPUs.
                if read("comm").starts_with("CPU ") {
                    assert_eq!(allowed, place.vcpus[0].to_string(), "{status}");
                    seen.0 += 1;
                } else {
                    assert_eq!(allowed, emulator, "{status}");
                    seen.1 += 1;
                }
            }
            assert!(seen.0 == 1 && seen.1 > 0, "{seen:?}");
            bench.latlab(&["destroy", &lab]).good();
        },
    );
}
