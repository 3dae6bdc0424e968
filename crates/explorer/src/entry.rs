//! A run as the explorer lists it, read from its directory.

use std::collections::BTreeMap;
use std::fs::symlink_metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use latlab_model::results::{Annotation, HostBrief, Manifest, RunState, Severity, Summary};
use latlab_report::RunDir;
use latlab_report::quantities::{self, Quantity};
use serde::{Deserialize, Serialize};

/// Files whose change changes the entry.
const WATCHED: [&str; 3] = ["manifest.json", "summary.json", "annotation.json"];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Path of its directory below the directory that is served.
    pub path: String,
    pub id: String,
    pub study: String,
    pub description: Option<String>,
    /// `complete`, `incomplete`, `running`, or empty where the directory cannot be read.
    pub state: String,
    /// Why it is incomplete.
    pub reason: Option<String>,
    /// RFC 3339, UTC.
    pub started: String,
    pub finished: Option<String>,
    /// CPU and number of CPUs.
    pub machine: String,
    pub kernel: String,
    /// latlab's version.
    pub version: String,
    pub acceleration: String,
    pub cells: usize,
    pub trials: usize,
    pub failed: usize,
    pub overloaded: usize,
    pub factors: Vec<Levels>,
    pub measurements: Vec<String>,
    /// A line about each measurement, as people read it.
    pub definitions: BTreeMap<String, String>,
    /// Number of serious notes.
    pub serious: usize,
    pub tags: Vec<String>,
    pub note: String,
    /// Why the directory cannot be read.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    pub name: String,
    pub levels: Vec<String>,
}

impl Run {
    /// The definition of a cell's measurement, with whose name the cell's begins.
    pub fn definition(&self, cell: &str) -> Option<&str> {
        let measurement = cell.split('/').next()?;
        self.definitions.get(measurement).map(String::as_str)
    }
}

/// All that the index keeps of a run.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub run: Run,
    /// By cell.
    pub results: Vec<(String, Vec<Quantity>)>,
}

/// Identity of what an entry was read from: its files' times, sizes and numbers. `None` where there is no manifest.
pub fn stamp(directory: &Path) -> Option<String> {
    let of_file = |name: &&str| {
        let found = symlink_metadata(directory.join(name)).ok()?;
        let (seconds, ns) = (found.mtime(), found.mtime_nsec());
        Some(format!("{seconds}.{ns}.{}.{}", found.size(), found.ino()))
    };
    of_file(&WATCHED[0])?;
    let stamps = WATCHED.iter().map(|name| of_file(name).unwrap_or_default());
    Some(stamps.collect::<Vec<_>>().join(" "))
}

/// Reads a run directory. One that cannot be read is an entry with its problem.
pub fn read(directory: &Path, path: &str) -> Entry {
    let mut entry = Entry::default();
    entry.run.path = path.to_owned();
    entry.run.problem = read_into(directory, &mut entry).err();
    entry
}

/// Errors: why the rest cannot be read.
fn read_into(directory: &Path, entry: &mut Entry) -> Result<(), String> {
    let dir = RunDir::open(directory).map_err(|error| error.to_string())?;
    let manifest = dir.read_manifest().map_err(|error| error.to_string())?;
    let annotation = dir.read_annotation().unwrap_or_default();
    planned(&mut entry.run, &manifest, annotation);
    // A run that still goes on, or that was killed, has no summary.
    if !dir.summary_path().exists() {
        return Ok(());
    }
    let summary = dir.read_summary().map_err(|error| error.to_string())?;
    measured(&mut entry.run, &summary);
    let results = quantities::of_summary(&summary).into_iter();
    let results = results.map(|(cell, found)| (cell.id.clone(), found));
    entry.results = results.collect();
    Ok(())
}

fn planned(run: &mut Run, manifest: &Manifest, annotation: Annotation) {
    run.id.clone_from(&manifest.id);
    run.study.clone_from(&manifest.study);
    run.description.clone_from(&manifest.description);
    (run.state, run.reason) = match &manifest.state {
        RunState::Running => ("running".to_owned(), None),
        RunState::Complete => ("complete".to_owned(), None),
        RunState::Incomplete { reason } => ("incomplete".to_owned(), Some(reason.clone())),
    };
    run.started.clone_from(&manifest.started);
    run.finished.clone_from(&manifest.finished);
    run.machine = machine(&manifest.host);
    run.kernel.clone_from(&manifest.host.kernel);
    run.acceleration.clone_from(&manifest.host.acceleration);
    let version = manifest.versions.get("latlab").cloned();
    run.version = version.unwrap_or_default();
    run.cells = manifest.cells.len();
    run.trials = manifest.order.len();
    let factors = manifest.factors.iter().map(|factor| Levels {
        name: factor.name.clone(),
        levels: factor.levels.clone(),
    });
    run.factors = factors.collect();
    run.measurements = manifest
        .measurements
        .iter()
        .map(|m| m.name.clone())
        .collect();
    let definitions = manifest.measurements.iter();
    run.definitions = definitions
        .map(|m| (m.name.clone(), m.description.clone()))
        .collect();
    run.note = annotation.note;
    run.tags = annotation.tags;
}

fn measured(run: &mut Run, summary: &Summary) {
    let serious = summary
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Serious);
    run.serious = serious.count();
    run.failed = summary.trials.iter().filter(|t| t.failed.is_some()).count();
    run.overloaded = summary.trials.iter().filter(|t| t.overloaded).count();
}

fn machine(host: &HostBrief) -> String {
    match (host.is_known(), host.cores) {
        (false, _) => "unknown".to_owned(),
        (true, 1) => format!("{} · 1 CPU", host.cpu),
        (true, cores) => format!("{} · {cores} CPUs", host.cpu),
    }
}
