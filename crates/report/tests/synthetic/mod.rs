//! A synthetic run, written to disk like a real one: for tests of all readers of a run directory, and for
//! viewing the report on a machine without root.
//!
//! Latencies are shaped like real ones (a narrow body, a tail, rare scheduling spikes, differences
//! between trials) and come from a seed, so that the same plan gives the same bytes.

#![allow(dead_code)] // Each user of this file needs another part of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latlab_model::results::{
    CellPlan, Check, ClockMap, Counters, Environment, Factor, Floor, HostBrief, Manifest,
    MeasurementInfo, NodeRecord, PlannedTrial, RunState, StreamResult, Summary, Topology,
    TopologyEndpoint, TopologyLink, TopologyNode, Trial, TrialOutcome,
};
use latlab_report::stats::Rng;
use latlab_samples::{RunDir, Sample, SampleWriter};

/// Size and seed of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Last part of the run's identifier.
    pub name: &'static str,
    /// Levels of the factor `kind`, the baseline first.
    pub kinds: Vec<&'static str>,
    /// Levels of the factor `link`.
    pub links: Vec<&'static str>,
    /// `rr-udp`, `packets`, `stream-tcp`.
    pub measurements: Vec<&'static str>,
    pub replicates: u32,
    /// Transactions or packets a trial.
    pub samples: u64,
    pub seed: u64,
    /// With a failed trial, overload and losses.
    pub faults: bool,
}

impl Plan {
    /// Enough for every code path, in a moment.
    pub fn small() -> Self {
        Self {
            name: "small",
            kinds: vec!["native", "container", "vm"],
            links: vec!["veth", "bridge"],
            measurements: vec!["rr-udp", "packets"],
            replicates: 4,
            samples: 1_000,
            seed: 7,
            faults: false,
        }
    }

    /// Like the demonstration: all kinds over three links.
    pub fn realistic() -> Self {
        Self {
            name: "demo",
            links: vec!["veth", "bridge", "nat"],
            measurements: vec!["rr-udp", "packets", "stream-tcp"],
            replicates: 5,
            samples: 40_000,
            seed: 20_161_107,
            faults: true,
            ..Self::small()
        }
    }

    /// Everything fixed before the first packet.
    pub fn manifest(&self) -> Manifest {
        let levels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Manifest {
            format: Manifest::FORMAT.to_owned(),
            id: format!("{}-20261107T091500Z", self.name),
            study: self.name.to_owned(),
            description: Some("Made-up numbers, for tests and for looking at the report.".into()),
            state: RunState::Complete,
            started: "2026-11-07T09:15:00Z".to_owned(),
            finished: Some("2026-11-07T09:19:00Z".to_owned()),
            seed: self.seed,
            replicates: self.replicates,
            host: host(),
            versions: [("latlab", "0.1.0"), ("crun", "1.8.1"), ("qemu", "7.2.17")]
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            factors: vec![
                Factor {
                    name: "kind".into(),
                    path: "topology.nodes.server.kind".into(),
                    levels: levels(&self.kinds),
                },
                Factor {
                    name: "link".into(),
                    path: "topology.links.0.type".into(),
                    levels: levels(&self.links),
                },
            ],
            measurements: self
                .measurements
                .iter()
                .map(|name| self.measurement(name))
                .collect(),
            baseline: [("kind".to_owned(), self.kinds[0].to_owned())].into(),
            against: BTreeMap::new(),
            paper: None,
            cells: self.cells(),
            order: self.order(),
            part: None,
            topologies: self
                .combinations()
                .map(|(kind, link)| topology(kind, link))
                .collect(),
            checksums: BTreeMap::new(),
        }
    }

    fn measurement(&self, name: &str) -> MeasurementInfo {
        let samples = self.samples;
        let (probe, description, latency) = match name {
            "packets" => (
                "packets",
                format!("UDP, 64 B, 5,000 a second, {samples} packets"),
                "one way",
            ),
            "stream-tcp" => (
                "stream",
                "TCP, one stream, 5 s, client to server".to_owned(),
                "",
            ),
            _ => (
                "rr",
                format!("UDP, 64 B, {samples} transactions, one in flight"),
                "round trip",
            ),
        };
        MeasurementInfo {
            name: name.to_owned(),
            probe: probe.to_owned(),
            description,
            latency: (!latency.is_empty()).then(|| latency.to_owned()),
            sweep: None,
        }
    }

    fn combinations(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.links
            .iter()
            .flat_map(|&link| self.kinds.iter().map(move |&kind| (kind, link)))
    }

    fn cells(&self) -> Vec<CellPlan> {
        let mut cells = Vec::new();
        for name in &self.measurements {
            for (topology, (kind, link)) in self.combinations().enumerate() {
                let levels = [("kind", kind), ("link", link)];
                cells.push(CellPlan {
                    id: format!("{name}/kind={kind}/link={link}"),
                    measurement: (*name).to_owned(),
                    levels: levels.map(|(n, l)| (n.to_owned(), l.to_owned())).into(),
                    environment: environment(kind),
                    topology,
                });
            }
        }
        cells
    }

    fn order(&self) -> Vec<PlannedTrial> {
        let mut rng = Rng::new(self.seed);
        let mut visits: Vec<(String, u32)> = (1..=self.replicates)
            .flat_map(|replicate| {
                self.cells()
                    .into_iter()
                    .map(move |cell| (cell.id, replicate))
            })
            .collect();
        for last in (1..visits.len()).rev() {
            visits.swap(last, rng.below(last + 1));
        }
        visits
            .into_iter()
            .zip(1..)
            .map(|((cell, replicate), trial)| PlannedTrial {
                trial,
                cell,
                replicate,
            })
            .collect()
    }

    /// Writes the run, checksums included.
    pub fn write(&self, root: impl Into<PathBuf>) -> RunDir {
        let run = RunDir::create(root).expect("the directory is free");
        let mut manifest = self.manifest();
        std::fs::write(run.root().join("study.yaml"), "name: made-up\n").unwrap();
        for planned in &manifest.order {
            let cell = manifest
                .cells
                .iter()
                .find(|cell| cell.id == planned.cell)
                .unwrap();
            self.write_trial(&run, planned, cell);
        }
        manifest.checksums = run.checksums().unwrap();
        run.write_manifest(&manifest).unwrap();
        run
    }

    fn write_trial(&self, run: &RunDir, planned: &PlannedTrial, cell: &CellPlan) {
        let mut rng = Rng::named(self.seed ^ u64::from(planned.trial), &cell.id);
        run.create_trial(planned.trial).unwrap();
        let (kind, link) = (cell.levels["kind"].as_str(), cell.levels["link"].as_str());
        let second = u64::from(planned.trial) * 2;
        let started = format!("2026-11-07T09:{:02}:{:02}Z", 15 + second / 60, second % 60);
        let mut trial = Trial {
            checks: vec![check("steal", 0.002 * rng.uniform())],
            nodes: vec![NodeRecord {
                node: "client".into(),
                role: "sender".into(),
                values: [("cpu_user_ns".to_owned(), 1.5e8)].into(),
            }],
            ..Trial::new(planned.trial, &cell.id, planned.replicate, &started)
        };
        if cell.measurement == "stream-tcp" {
            trial.stream = Some(stream(kind, link, &mut rng));
        } else {
            let shape = Shape::new(kind, link, &cell.measurement, self.faults, &mut rng);
            trial.counters = self.write_samples(run, planned.trial, &shape, &mut rng);
            trial.samples = Some(RunDir::samples_name(planned.trial));
            trial.floor = Some(Floor {
                median_ns: 5_200.0 + (100.0 * rng.normal()).round(),
                p99_ns: 7_900.0,
                samples: 10_000,
                clock_read_ns: 24.0,
                clock_resolution_ns: 1.0,
            });
            trial.clock = (kind == "vm" && cell.measurement == "packets").then_some(ClockMap {
                offset_before_ns: 1_203_441,
                offset_after_ns: 1_203_560,
                before_at_ns: -40_000_000,
                after_at_ns: 8_040_000_000,
                error_ns: 46_000,
            });
        }
        if self.faults {
            self.spoil(&mut trial);
        }
        run.write_trial(&trial).unwrap();
    }

    /// Makes some trials fail and some overloaded.
    fn spoil(&self, trial: &mut Trial) {
        if trial.trial % 17 == 3 {
            trial.checks.push(check("involuntary-switches", 0.4));
        }
        if trial.trial == 12 {
            let reason = "the server's agent did not answer within 10 s".to_owned();
            trial.outcome = TrialOutcome::Failed { reason };
        }
    }

    fn write_samples(&self, run: &RunDir, trial: u32, shape: &Shape, rng: &mut Rng) -> Counters {
        let mut writer =
            SampleWriter::create(run.root().join(RunDir::samples_name(trial))).unwrap();
        let mut counters = Counters::default();
        let (mut now, mut arrival) = (0, 0);
        for seq in 0..self.samples {
            let lost = rng.uniform() < shape.loss;
            let latency = shape.draw(now, rng);
            let intended_ns = if shape.open_loop {
                seq as i64 * 200_000
            } else {
                now
            };
            let sent_ns = intended_ns + 90;
            let received_ns = (!lost).then(|| intended_ns + latency);
            let sample = Sample {
                seq,
                intended_ns,
                sent_ns: if shape.open_loop {
                    sent_ns
                } else {
                    intended_ns
                },
                received_ns,
                latency_ns: received_ns.map(|_| latency),
                arrival: received_ns.map(|_| arrival),
            };
            writer.push(&sample).unwrap();
            counters.sent += 1;
            if lost {
                counters.lost += 1;
            } else {
                counters.received += 1;
                arrival += 1;
            }
            now = intended_ns
                + if shape.open_loop {
                    200_000
                } else {
                    latency + 800
                };
        }
        writer.finish().unwrap();
        counters
    }
}

/// Where one trial's latencies lie.
struct Shape {
    centre_ns: f64,
    width: f64,
    spikes: f64,
    loss: f64,
    open_loop: bool,
}

impl Shape {
    fn new(kind: &str, link: &str, measurement: &str, faults: bool, rng: &mut Rng) -> Self {
        let open_loop = measurement == "packets";
        let (base, width) = match kind {
            "vm" => (690_000.0, 0.16),
            "container" => (12_350.0, 0.055),
            _ => (12_100.0, 0.05),
        };
        let extra = match link {
            "bridge" => 1_450.0,
            "nat" => 3_100.0,
            _ => 0.0,
        };
        let one_way = if open_loop { 0.52 } else { 1.0 };
        // Trials differ by a per cent or two, as they do on a real machine.
        let trial = libm::exp(0.012 * rng.normal());
        let loss = if faults && kind == "vm" && open_loop {
            0.0008
        } else {
            0.0
        };
        Self {
            centre_ns: (base + extra) * one_way * trial,
            width,
            spikes: 0.002,
            loss,
            open_loop,
        }
    }

    fn draw(&self, now: i64, rng: &mut Rng) -> i64 {
        let body = self.centre_ns * libm::exp(self.width * rng.normal());
        // The timer tick every 4 ms, and rare scheduling delays.
        let tick = if now % 4_000_000 < 9_000 {
            2_400.0 * rng.uniform()
        } else {
            0.0
        };
        let spike = if rng.uniform() < self.spikes {
            20_000.0 / (rng.uniform() + 0.004)
        } else {
            0.0
        };
        (body + tick + spike).round() as i64
    }
}

fn stream(kind: &str, link: &str, rng: &mut Rng) -> StreamResult {
    let base = match kind {
        "vm" => 1.8e9,
        "container" => 21.4e9,
        _ => 21.9e9,
    };
    let slower = match link {
        "bridge" => 0.94,
        "nat" => 0.83,
        _ => 1.0,
    };
    let rate = base * slower * libm::exp(0.02 * rng.normal());
    let intervals: Vec<(f64, f64)> = (0..25)
        .map(|i| (f64::from(i) * 0.2, rate * libm::exp(0.03 * rng.normal())))
        .collect();
    let cost = 8e9 / rate * 0.45;
    StreamResult {
        bits_per_second: rate,
        bytes: (rate / 8.0 * 5.0) as u64,
        seconds: 5.0,
        cpu_ns_per_byte: [
            ("sender".to_owned(), cost),
            ("receiver".to_owned(), cost * 1.3),
        ]
        .into(),
        retransmits: Some(rng.below(4) as u64),
        lost_fraction: None,
        intervals,
    }
}

fn check(name: &str, value: f64) -> Check {
    Check {
        name: name.to_owned(),
        question: format!("Was {name} low?"),
        value,
        limit: 0.05,
        unit: "1".to_owned(),
        passed: value <= 0.05,
        consumers: Vec::new(),
    }
}

fn environment(kind: &str) -> Environment {
    let server = if kind == "vm" { "vm (tcg)" } else { kind };
    let facts = [("client", "native"), ("server", server), ("cgroup", "v1")];
    Environment {
        emulated: kind == "vm",
        emulation: Vec::new(),
        facts: facts
            .map(|(name, fact)| (name.to_owned(), fact.to_owned()))
            .into(),
    }
}

fn host() -> HostBrief {
    HostBrief {
        cpu: "Example CPU 9000".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "6.18.0".into(),
        distribution: "Debian GNU/Linux 12 (bookworm)".into(),
        hypervisor: Some("kvm".into()),
        acceleration: "tcg".into(),
        acceleration_reason: Some("the boot probe's guest did not start within 10 s".into()),
        cgroup: "v1".into(),
        clocksource: "tsc".into(),
    }
}

fn topology(kind: &str, link: &str) -> Topology {
    let node = |name: &str, kind: &str, facts: &[&str]| TopologyNode {
        name: name.to_owned(),
        kind: kind.to_owned(),
        facts: facts.iter().map(|fact| (*fact).to_owned()).collect(),
    };
    let end = |node: &str, host: u8| TopologyEndpoint {
        node: node.to_owned(),
        interface: "eth0".to_owned(),
        addresses: vec![format!("10.0.0.{host}/24"), format!("fd00::{host}/64")],
    };
    let facts: &[&str] = if kind == "vm" {
        &["1 CPU", "256 MiB", "kernel 6.1.0-37-amd64"]
    } else {
        &["1 CPU"]
    };
    Topology {
        lab: "pair".into(),
        levels: [("kind", kind), ("link", link)]
            .map(|(name, level)| (name.to_owned(), level.to_owned()))
            .into(),
        nodes: vec![
            node("client", "native", &["1 CPU"]),
            node("server", kind, facts),
        ],
        links: vec![TopologyLink {
            name: "link0".into(),
            kind: link.to_owned(),
            facts: vec!["mtu 1500".into()],
            endpoints: vec![end("client", 1), end("server", 2)],
        }],
    }
}

/// A directory for one test, removed when the test ends, also when it fails.
pub struct Scratch(PathBuf);

impl Scratch {
    /// `name` separates the tests of one process, the process id those of several.
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("latlab-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The summary of the small run, made once.
pub fn summary() -> Summary {
    static ONCE: std::sync::LazyLock<Summary> = std::sync::LazyLock::new(|| {
        let scratch = Scratch::new("summary");
        let run = Plan::small().write(scratch.path().join("run"));
        latlab_report::analyse(&run).unwrap().summary
    });
    ONCE.clone()
}
