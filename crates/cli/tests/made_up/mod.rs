//! Runs of the studies in `studies/`, with made-up numbers: for readers of run directories that need a study's true
//! cells and kinds of measurement, and not hours on a machine with KVM.
//!
//! Cells, order and figures come from the study itself, by the code that plans and measures a real run.

#![allow(dead_code)] // Each user of this file needs another part of it.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_measure::workload::figures;
use latlab_model::facts::Facts;
use latlab_model::plan::{Plan, RunPlan, plan_run};
use latlab_model::profile::Profile;
use latlab_model::results::{
    ActionKind, ActionRecord, Client, Copied, Counters, Floor, Manifest, NodeMemory, NodeStart,
    NodeWorkload, RunState, StreamResult, Topology, TopologyNode, Trial, WorkloadResult,
};
use latlab_model::spec::{Action, LabSource, Measurement, Probe, Protocol, Study, Workload};
use latlab_report::RunDir;
use latlab_report::stats::Rng;
use latlab_samples::{Sample, SampleWriter};

const STARTED: &str = "2026-11-28T10:15:00Z";
const MS: i64 = 1_000_000;
/// Enough for the 99th percentile of each trial, and of a forwarder's for the 99.9th.
const SAMPLES: u64 = 1_500;
const FORWARDED: u64 = 12_000;

/// A directory of runs, removed when the test ends.
pub struct Runs(PathBuf);

impl Runs {
    /// `name` separates the tests of one process, the process id those of several.
    pub fn new(name: &str) -> Runs {
        let path = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Runs(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a run of a study of `studies/`, its summary and its report.
    pub fn write(&self, name: &str, replicates: u32) -> RunDir {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |file: String| fs::read_to_string(root.join(file)).unwrap();
        let text = read(format!("studies/{name}.yaml"));
        let mut study = Study::parse(&text).unwrap();
        study.replicates = replicates;
        let LabSource::Inline(lab) = &study.lab else {
            panic!("{name} has its lab in another file");
        };
        let facts: Facts =
            serde_json::from_str(&read("crates/model/tests/facts/large.json".into())).unwrap();
        let plan = plan_run(&study, lab, &facts, &Profile::builtin).unwrap();
        let run = RunDir::create(self.0.join(format!("{name}-20261128-101500"))).unwrap();
        fs::write(run.root().join("study.yaml"), &text).unwrap();
        for visit in &plan.visits {
            let mut begin = starts(
                &plan.topologies[visit.lab],
                study.seed + u64::from(visit.replicate),
            );
            for (number, cell, measurement) in &visit.trials {
                let chance = Chance::new(&plan, *cell, *number, study.seed);
                let measurement = &plan.measurements[*measurement];
                let id = &plan.cells[*cell].id;
                let mut trial = Trial::new(*number, id, visit.replicate, STARTED);
                // A deployment is told of once.
                trial.starts = std::mem::take(&mut begin);
                run.create_trial(*number).unwrap();
                measure(&run, &plan.labs[visit.lab], measurement, chance, &mut trial);
                run.write_trial(&trial).unwrap();
            }
        }
        let id = format!("{name}-20261128-101500");
        let manifest = Manifest {
            state: RunState::Complete,
            finished: Some("2026-11-28T11:15:00Z".into()),
            checksums: run.checksums().unwrap(),
            ..plan.manifest(&study, id, STARTED.into())
        };
        run.write_manifest(&manifest).unwrap();
        latlab_report::conclude(&run).unwrap();
        run
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Random numbers of a trial, and how much slower its cell is than others.
struct Chance {
    rng: Rng,
    slowness: f64,
}

impl Chance {
    /// Each level has a factor of its own; a VM is the slowest kind of node, and nodes share the machine.
    fn new(plan: &RunPlan, cell: usize, trial: u32, seed: u64) -> Chance {
        let cell = &plan.cells[cell];
        let topology = &plan.topologies[cell.topology];
        let of_kind = |kind: &str| match kind {
            "vm" => 2.5,
            "container" => 1.04,
            _ => 1.0,
        };
        let kinds = topology.nodes.iter().map(|node| of_kind(&node.kind));
        let levels = cell.levels.iter().map(|(factor, level)| {
            1.0 + 0.1 * Rng::named(1, &format!("{factor}={level}")).uniform()
        });
        let mut rng = Rng::named(seed ^ u64::from(trial), &cell.id);
        let trial = libm::exp(0.015 * rng.normal());
        let nodes = topology.nodes.len() as f64;
        let slowness =
            kinds.fold(1.0, f64::max) * levels.product::<f64>() * libm::sqrt(nodes) * trial;
        Chance { rng, slowness }
    }

    /// A time, or another figure that is lower where the cell is faster.
    fn time(&mut self, typical: f64) -> f64 {
        typical * self.slowness * self.near_one()
    }

    fn rate(&mut self, typical: f64) -> f64 {
        typical / self.slowness * self.near_one()
    }

    fn near_one(&mut self) -> f64 {
        libm::exp(0.02 * self.rng.normal())
    }
}

/// Containers and VMs of a lab as they come up, two at the same time.
fn starts(lab: &Topology, seed: u64) -> Vec<NodeStart> {
    let mut rng = Rng::named(seed, &format!("{:?}", lab.levels));
    let nodes = lab.nodes.iter();
    let started = nodes.filter(|node| ["container", "vm"].contains(&node.kind.as_str()));
    let mut free = [0, 0];
    let one = |node: &TopologyNode| {
        let typical = if node.kind == "vm" { 4e9 } else { 0.1e9 };
        let took = (typical * libm::exp(0.1 * rng.normal())) as u64;
        free.sort_unstable();
        let began_ns = free[0];
        free[0] += took;
        NodeStart {
            node: node.name.clone(),
            kind: node.kind.clone(),
            began_ns,
            ready_ns: began_ns + took,
            kernel: None,
        }
    };
    started.map(one).collect()
}

fn measure(
    run: &RunDir,
    lab: &Plan,
    measurement: &Measurement,
    mut chance: Chance,
    trial: &mut Trial,
) {
    match (measurement.probe, &measurement.workload) {
        (Probe::Stream, _) => trial.stream = Some(stream(measurement, &mut chance)),
        (_, Some(workload)) => {
            trial.workload = Some(work(
                run,
                lab,
                measurement,
                workload,
                &mut chance,
                trial.trial,
            ));
        }
        _ => {
            let actions = measurement.actions.iter();
            trial.actions = actions.map(|action| act(action, &mut chance)).collect();
            trial.counters = sample(run, measurement, &mut chance, trial);
            trial.samples = Some(RunDir::samples_name(trial.trial));
            trial.floor = Some(Floor {
                median_ns: chance.near_one() * 5_200.0,
                p99_ns: 7_900.0,
                samples: 10_000,
                clock_read_ns: 24.0,
                clock_resolution_ns: 1.0,
            });
        }
    }
}

fn stream(measurement: &Measurement, chance: &mut Chance) -> StreamResult {
    let is_tcp = measurement.protocol == Protocol::Tcp;
    let bits_per_second = chance.rate(21e9);
    let seconds = measurement.duration.0 as f64 / 1e9;
    let ends = [
        ("receiver", 0.5),
        ("receiver-process", 0.4),
        ("sender", 0.4),
        ("sender-process", 0.3),
    ];
    let cost = ends.map(|(end, typical)| (end.to_owned(), chance.time(typical)));
    StreamResult {
        bits_per_second,
        bytes: (bits_per_second / 8.0 * seconds) as u64,
        seconds,
        cpu_ns_per_byte: cost.into(),
        retransmits: is_tcp.then(|| chance.rng.below(4) as u64),
        lost_fraction: (!is_tcp).then(|| 0.01 * chance.rng.uniform()),
        intervals: vec![(0.0, bits_per_second)],
    }
}

fn work(
    run: &RunDir,
    lab: &Plan,
    measurement: &Measurement,
    workload: &Workload,
    chance: &mut Chance,
    trial: u32,
) -> WorkloadResult {
    let names: Vec<&str> = lab.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut nodes = workload.nodes(&names);
    let figures = figures(measurement, nodes.len());
    // One node tells of a job of several.
    nodes.truncate(if workload.is_joint() { 1 } else { nodes.len() });
    let one = |(place, node): (usize, &&str)| {
        let values = figures.iter().map(|figure| {
            let typical = 100.0 * (0.5 + Rng::named(2, &figure.name).uniform());
            match figure.higher_is_better {
                true => chance.rate(typical),
                false => chance.time(typical),
            }
        });
        let values = values.collect();
        let [output, errors] = RunDir::output_names(trial, node);
        for file in [&output, &errors] {
            run.write(file, b"").unwrap();
        }
        NodeWorkload {
            node: (*node).to_owned(),
            values,
            began_ns: place as u64 * 40_000,
            ended_ns: 2_000_000_000,
            cpu_ns: Some(chance.time(1.9e9) as u64),
            memory: NodeMemory {
                pss_bytes: Some(chance.time(30e6) as u64),
                cgroup_bytes: Some(chance.time(40e6) as u64),
            },
            output,
            errors,
            client: workload.from.as_ref().map(|from| Client {
                node: from.value.clone(),
                cpu_ns: Some(chance.time(1e9) as u64),
            }),
            ..NodeWorkload::default()
        }
    };
    let nodes: Vec<NodeWorkload> = nodes.iter().enumerate().map(one).collect();
    WorkloadResult {
        begin_spread_ns: nodes.last().map_or(0, |node| node.began_ns),
        machine_cpu_ns: Some(chance.time(4e9) as u64),
        available_lost_bytes: Some(chance.time(50e6) as i64),
        figures,
        nodes,
        ..WorkloadResult::default()
    }
}

fn act(action: &Action, chance: &mut Chance) -> ActionRecord {
    let asked_ns = action.at.value.0 as i64;
    let act = action.act.kind();
    let stopped = asked_ns + chance.time(20e6) as i64;
    let running = stopped + chance.time(60e6) as i64;
    ActionRecord {
        node: action.node.value.clone(),
        act,
        to: None,
        asked_ns,
        done_ns: running + 10 * MS,
        stopped_ns: Some(stopped),
        resumed_ns: None,
        running_ns: Some(running),
        claimed_ns: (act == ActionKind::Migrate).then_some(7_000_000),
        copied: (act == ActionKind::Migrate).then_some(Copied {
            bytes: 90 << 20,
            passes: 3,
            was_forced: false,
        }),
        gap_ns: None,
    }
}

/// Evenly over the window; nothing comes back while a node stands still.
fn sample(run: &RunDir, measurement: &Measurement, chance: &mut Chance, trial: &Trial) -> Counters {
    let mut writer =
        SampleWriter::create(run.root().join(RunDir::samples_name(trial.trial))).unwrap();
    let count = match measurement.probe {
        Probe::Forward => FORWARDED,
        _ => SAMPLES,
    };
    let period = measurement.duration.0 as i64 / count as i64;
    let mut counters = Counters::default();
    let typical = chance.time(20e3);
    for seq in 0..count {
        let sent_ns = seq as i64 * period;
        let spike = if chance.rng.uniform() < 0.004 {
            9.0 * chance.rng.uniform()
        } else {
            0.0
        };
        let latency = (typical * (libm::exp(0.08 * chance.rng.normal()) + spike)) as i64;
        let stands = |action: &ActionRecord| {
            let (from, to) = (action.stopped_ns.unwrap(), action.running_ns.unwrap());
            (from..to).contains(&sent_ns)
        };
        let is_lost = trial.actions.iter().any(stands);
        let sample = Sample {
            seq,
            intended_ns: sent_ns,
            sent_ns,
            received_ns: (!is_lost).then_some(sent_ns + latency),
            latency_ns: (!is_lost).then_some(latency),
            arrival: (!is_lost).then_some(counters.received as i64),
        };
        writer.push(&sample).unwrap();
        counters.sent += 1;
        counters.received += u64::from(!is_lost);
        counters.lost += u64::from(is_lost);
    }
    writer.finish().unwrap();
    counters
}
