//! Captures whose packets have been matched, written as a run.

use std::collections::BTreeMap;

use latlab_model::results::{
    CellPlan, Environment, HostBrief, Manifest, MeasurementInfo, PlannedTrial, RunState, Topology,
    Trial,
};

use super::error::ImportError;
use super::identity::By;
use super::pair::Pair;
use super::source::Source;
use crate::run_dir::RunDir;
use crate::writer::SampleWriter;

const MEASUREMENT: &str = "passage";

/// The captures, and how their packets are matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Captures before and behind the device, each pair of another time.
    pub pairs: Vec<[Source; 2]>,
    pub by: By,
    /// The name of the study, and so of the run.
    pub name: String,
}

/// Captures whose packets have been matched.
#[derive(Debug)]
pub struct Imported {
    pub(super) import: Import,
    pub(super) pairs: Vec<Pair>,
}

impl Imported {
    pub fn read(import: Import) -> Result<Imported, ImportError> {
        let pairs = import.pairs.iter().cloned();
        let pairs = pairs.map(|sources| Pair::read(sources, import.by));
        Ok(Imported {
            pairs: pairs.collect::<Result<_, _>>()?,
            import,
        })
    }

    /// Packets that are not in the result, with the reason; one line each.
    pub fn left_out(&self) -> Vec<String> {
        let lines = self.pairs.iter().map(|pair| (pair, pair.left_out()));
        let named = lines.flat_map(|(pair, lines)| {
            let before = &pair.sources[0];
            let named = |line| format!("{before}: {line}");
            lines.into_iter().map(named).collect::<Vec<_>>()
        });
        named.collect()
    }

    /// Writes all files of the run but what a report is.
    pub fn write(&self, dir: &RunDir, id: String) -> Result<Manifest, ImportError> {
        for (number, pair) in (1..).zip(&self.pairs) {
            dir.create_trial(number)?;
            let samples = RunDir::samples_name(number);
            let mut writer = SampleWriter::create(dir.place(&samples))?;
            writer.push_batch(&pair.matched.samples)?;
            writer.finish()?;
            dir.write_trial(&self.trial(number, pair, samples))?;
        }
        let mut manifest = self.manifest(id);
        manifest.checksums = dir.checksums()?;
        dir.write_manifest(&manifest)?;
        Ok(manifest)
    }

    fn trial(&self, number: u32, pair: &Pair, samples: String) -> Trial {
        Trial {
            counters: pair.matched.counters,
            checks: pair.checks(),
            samples: Some(samples),
            ..Trial::new(number, MEASUREMENT, number, &pair.span().0)
        }
    }

    fn manifest(&self, id: String) -> Manifest {
        let import = &self.import;
        let by = import.by.word();
        let spans: Vec<_> = self.pairs.iter().map(Pair::span).collect();
        let measurement = MeasurementInfo {
            name: MEASUREMENT.to_owned(),
            probe: "capture".to_owned(),
            description: format!("two captures of the same packets, matched by {by}"),
            latency: Some("one way".to_owned()),
            sweep: None,
        };
        let replicates = self.pairs.len() as u32;
        let order = (1..=replicates).map(|number| PlannedTrial {
            trial: number,
            cell: MEASUREMENT.to_owned(),
            replicate: number,
        });
        let cell = CellPlan {
            id: MEASUREMENT.to_owned(),
            measurement: MEASUREMENT.to_owned(),
            levels: BTreeMap::new(),
            environment: Environment {
                facts: self.facts(),
                ..Environment::default()
            },
            topology: 0,
        };
        Manifest {
            format: Manifest::FORMAT.to_owned(),
            id,
            study: import.name.clone(),
            description: Some("Imported captures; the machine is not known.".to_owned()),
            state: RunState::Complete,
            started: spans
                .iter()
                .map(|span| &span.0)
                .min()
                .cloned()
                .unwrap_or_default(),
            finished: spans.into_iter().map(|span| span.1).max(),
            seed: 0,
            replicates,
            host: HostBrief {
                acceleration: "unknown".to_owned(),
                ..HostBrief::default()
            },
            versions: BTreeMap::from([("latlab".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            factors: Vec::new(),
            measurements: vec![measurement],
            baseline: BTreeMap::new(),
            against: BTreeMap::new(),
            paper: None,
            cells: vec![cell],
            order: order.collect(),
            part: None,
            topologies: vec![Topology {
                lab: import.name.clone(),
                levels: BTreeMap::new(),
                nodes: Vec::new(),
                links: Vec::new(),
            }],
            checksums: BTreeMap::new(),
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        for (number, pair) in (1..).zip(&self.pairs) {
            let title = |title: &str| match self.pairs.len() {
                1 => title.to_owned(),
                _ => format!("{title} {number}"),
            };
            for ((point, source), side) in pair
                .points
                .iter()
                .zip(&pair.sources)
                .zip(["before", "after"])
            {
                let file = source.path.file_name().unwrap_or_default();
                let (file, name) = (file.to_string_lossy(), &point.interface.name);
                let (count, step) = (point.seen.len(), point.interface.step_ns());
                let digest = &point.digest;
                let fact = format!(
                    "{count} packets of {file} ({name}, timestamps in steps of {step} ns, SHA-256 {digest})"
                );
                facts.insert(title(side), fact);
            }
            facts.insert(title("direction"), pair.directions.join(", "));
            let left_out = pair.left_out();
            if !left_out.is_empty() {
                facts.insert(title("left out"), left_out.join("; "));
            }
        }
        facts
    }
}
