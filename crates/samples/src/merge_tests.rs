//! Parts that were made by hand, merged.

use std::collections::BTreeMap;
use std::fs;

use latlab_model::results::{Environment, Topology, TrialOutcome};

use super::*;
use crate::scratch::Scratch;

/// Trials of the run: 2 replicates of 2 cells. A part has one replicate.
const CELLS: [&str; 2] = ["rr/kind=native", "rr/kind=vm"];

fn cell(id: &str) -> CellPlan {
    let kind = id.split_once("kind=").unwrap().1;
    CellPlan {
        id: id.into(),
        measurement: "rr".into(),
        levels: BTreeMap::from([("kind".into(), kind.into())]),
        environment: Environment::default(),
        topology: 0,
    }
}

fn manifest(number: u32, machine: &str) -> Manifest {
    let order = (1..=4).map(|trial| PlannedTrial {
        trial,
        cell: CELLS[(trial as usize + 1) % 2].into(),
        replicate: trial.div_ceil(2),
    });
    Manifest {
        format: Manifest::FORMAT.into(),
        id: format!("study-{number}"),
        study: "study".into(),
        description: None,
        state: RunState::Complete,
        started: format!("2026-11-27T10:0{number}:00Z"),
        finished: Some(format!("2026-11-27T11:0{number}:00Z")),
        seed: 7,
        replicates: 2,
        host: HostBrief {
            cpu: "a CPU".into(),
            cores: 8,
            ..HostBrief::default()
        },
        versions: BTreeMap::from([("latlab".into(), "0.1.0".into())]),
        factors: vec![Factor {
            name: "kind".into(),
            path: "topology.nodes.server.kind".into(),
            levels: vec!["native".into(), "vm".into()],
        }],
        measurements: Vec::new(),
        baseline: BTreeMap::new(),
        against: BTreeMap::new(),
        paper: None,
        cells: CELLS.map(cell).into(),
        order: order.collect(),
        part: Some(Part {
            number,
            of: 2,
            machine: machine.into(),
            first: 2 * number - 1,
            last: 2 * number,
        }),
        topologies: vec![Topology {
            lab: "lab".into(),
            levels: BTreeMap::new(),
            nodes: Vec::new(),
            links: Vec::new(),
        }],
        checksums: BTreeMap::new(),
    }
}

/// A part's directory, with a record and an output for each trial; `change` is made to the manifest at the end.
fn part(
    scratch: &Scratch,
    name: &str,
    (number, machine): (u32, &str),
    change: impl FnOnce(&mut Manifest),
) -> PathBuf {
    let path = scratch.path().join(name);
    let dir = RunDir::create(&path).unwrap();
    dir.write("study.yaml", b"name: study\n").unwrap();
    let mut manifest = manifest(number, machine);
    for planned in &manifest.order {
        if manifest.part.as_ref().unwrap().has(planned.trial) {
            let record = record(planned);
            dir.write_trial(&record).unwrap();
            let [output, _] = RunDir::output_names(planned.trial, "node");
            dir.write(&output, name.as_bytes()).unwrap();
        }
    }
    manifest.checksums = dir.checksums().unwrap();
    change(&mut manifest);
    dir.write_manifest(&manifest).unwrap();
    path
}

fn record(planned: &PlannedTrial) -> Trial {
    let json = serde_json::json!({
        "trial": planned.trial,
        "cell": planned.cell,
        "replicate": planned.replicate,
        "started": "2026-11-27T10:00:00Z",
        "outcome": TrialOutcome::Measured,
    });
    serde_json::from_value(json).unwrap()
}

fn same(_: &mut Manifest) {}

#[test]
fn parts_of_one_machine_are_the_run_that_it_would_have_measured_at_once() {
    let scratch = Scratch::new("merge-one");
    let parts = [
        part(&scratch, "b", (2, "host"), same),
        part(&scratch, "a", (1, "host"), same),
    ];
    let dir = RunDir::create(scratch.path().join("whole")).unwrap();
    let parts = Parts::open(&parts).unwrap();
    assert!(parts.missing().is_empty() && parts.unfinished().is_empty());
    let merged = parts.merge_into(&dir, "whole".into()).unwrap();
    assert_eq!(merged, dir.read_manifest().unwrap());
    assert_eq!((merged.id.as_str(), &merged.part), ("whole", &None));
    assert_eq!(merged.state, RunState::Complete);
    assert_eq!(merged.started, "2026-11-27T10:01:00Z");
    assert_eq!(merged.finished.as_deref(), Some("2026-11-27T11:02:00Z"));
    let of_one = manifest(1, "host");
    assert_eq!(merged.cells, of_one.cells);
    assert_eq!(merged.order, of_one.order);
    assert_eq!(merged.versions, of_one.versions);
    for planned in &merged.order {
        assert_eq!(
            dir.read_trial(planned.trial).unwrap(),
            Some(record(planned))
        );
        let name = if planned.trial <= 2 { "a" } else { "b" };
        let [output, _] = RunDir::output_names(planned.trial, "node");
        assert_eq!(dir.read(&output).unwrap(), name.as_bytes());
    }
    assert!(dir.verify(&merged.checksums).is_empty());
    assert_eq!(merged.checksums.len(), 1 + 2 * 4);
}

#[test]
fn the_machine_becomes_a_factor_of_parts_of_several() {
    let scratch = Scratch::new("merge-two");
    // By its name alone the second machine would be the first.
    let parts = [
        part(&scratch, "a", (1, "host"), same),
        part(&scratch, "b", (2, "host"), |manifest| {
            manifest.host.cores = 4;
        }),
    ];
    let dir = RunDir::create(scratch.path().join("whole")).unwrap();
    let merged = Parts::open(&parts)
        .unwrap()
        .merge_into(&dir, "whole".into())
        .unwrap();
    let factor = merged.factors.last().unwrap();
    assert_eq!(
        (factor.name.as_str(), &factor.levels[..]),
        ("machine", &["host".into(), "host#2".into()][..])
    );
    let ids: Vec<&str> = merged.cells.iter().map(|cell| &*cell.id).collect();
    let expected = [
        "rr/kind=native/machine=host",
        "rr/kind=vm/machine=host",
        "rr/kind=native/machine=host#2",
        "rr/kind=vm/machine=host#2",
    ];
    assert_eq!(ids, expected);
    assert_eq!(merged.cells[3].levels["machine"], "host#2");
    assert_eq!(merged.cells[3].topology, 1);
    assert_eq!(merged.topologies.len(), 2);
    assert!(merged.cells[3].environment.facts["machine"].contains("4 cores"));
    assert_eq!(merged.host.cores, 4);
    assert_eq!(merged.replicates, 1, "of each cell by each machine");
    for planned in &merged.order {
        let trial = dir.read_trial(planned.trial).unwrap().unwrap();
        assert_eq!(trial.cell, planned.cell);
        let machine = if planned.trial <= 2 {
            "machine=host"
        } else {
            "machine=host#2"
        };
        assert!(trial.cell.ends_with(machine), "{}", trial.cell);
    }
    assert!(dir.verify(&merged.checksums).is_empty());
}

#[test]
fn a_machine_is_the_same_after_a_boot_that_left_less_memory() {
    let machines = |name: &str, less: u64| {
        let scratch = Scratch::new(name);
        let memory = |bytes| move |manifest: &mut Manifest| manifest.host.memory_bytes = bytes;
        let parts = [
            part(&scratch, "a", (1, "host"), memory(16 << 30)),
            part(&scratch, "b", (2, "host"), memory((16 << 30) - less)),
        ];
        Parts::open(&parts).unwrap().machines.len()
    };
    assert_eq!(machines("merge-boot", 8 << 10), 1);
    assert_eq!(machines("merge-memory", 8 << 30), 2);
}

#[test]
fn a_part_that_was_interrupted_is_passed_over_for_a_whole_one() {
    let scratch = Scratch::new("merge-again");
    let interrupted = |manifest: &mut Manifest| {
        let reason = "it was interrupted".into();
        manifest.state = RunState::Incomplete { reason };
    };
    let all = [
        part(&scratch, "early", (1, "host"), interrupted),
        part(&scratch, "again", (1, "host"), same),
        part(&scratch, "b", (2, "host"), interrupted),
    ];
    let parts = Parts::open(&all).unwrap();
    assert_eq!(parts.passed_over(), &all[..1]);
    assert_eq!(parts.unfinished(), [(2, "it was interrupted".to_owned())]);
    let dir = RunDir::create(scratch.path().join("whole")).unwrap();
    let merged = parts.merge_into(&dir, "whole".into()).unwrap();
    let reason = "part 2: it was interrupted".into();
    assert_eq!(merged.state, RunState::Incomplete { reason });
    let [output, _] = RunDir::output_names(1, "node");
    assert_eq!(dir.read(&output).unwrap(), b"again");

    let parts = Parts::open(&all[1..2]).unwrap();
    assert_eq!((parts.missing(), parts.of()), (vec![2], 2));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let scratch = Scratch::new("merge-refused");
    let first = part(&scratch, "first", (1, "host"), same);
    let refused = |other: &Path| {
        let error = Parts::open(&[first.clone(), other.into()]).unwrap_err();
        let above = format!("{}/", scratch.path().display());
        error.to_string().replace(&above, "")
    };
    let twice = part(&scratch, "twice", (1, "host"), same);
    assert_eq!(refused(&twice), "first and twice are both part 1");
    let whole = part(&scratch, "whole", (2, "host"), |m| m.part = None);
    assert_eq!(refused(&whole), "whole is a whole run, not a part of one");
    let seed = part(&scratch, "seed", (2, "host"), |m| m.seed = 8);
    assert_eq!(
        refused(&seed),
        "first and seed are parts of different runs: their seeds differ"
    );
    let order = part(&scratch, "order", (2, "host"), |m| m.order.swap(0, 1));
    assert_eq!(
        refused(&order),
        "first and order are parts of different runs: their trials differ"
    );
    let damaged = part(&scratch, "damaged", (2, "host"), same);
    fs::write(damaged.join("trials/0003/node.out"), "changed").unwrap();
    assert_eq!(
        refused(&damaged),
        "trials/0003/node.out of damaged has changed since the run"
    );

    let odd = |name: &str, change: fn(&mut Part)| {
        let other = part(&scratch, name, (2, "host"), |m| {
            change(m.part.as_mut().unwrap());
        });
        assert!(
            refused(&other).contains(&format!("{name} cannot be part")),
            "{name}"
        );
    };
    odd("many", |part| part.of = u32::MAX);
    odd("third", |part| part.number = 3);
    odd("beyond", |part| part.last = 5);
    odd("overlap", |part| part.first = 2);

    let stranger = part(&scratch, "stranger", (2, "host"), |m| {
        m.part.as_mut().unwrap().first = 4;
    });
    let dir = RunDir::create(scratch.path().join("into")).unwrap();
    let parts = Parts::open(&[first.clone(), stranger]).unwrap();
    let error = parts
        .merge_into(&dir, "into".into())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("stranger has trial 3, which is not of its part"),
        "{error}"
    );
}

#[test]
fn numbers_are_a_sentence() {
    assert_eq!(numbers(&[2]), "2");
    assert_eq!(numbers(&[2, 3, 7]), "2, 3 and 7");
}
