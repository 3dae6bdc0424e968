//! One run directory of the parts of a run, which were measured one by one, or by several machines.
//!
//! All parts have one plan and one numbering of trials. A trial keeps its number and its files. Where there was more than
//! one machine, the machine becomes a factor of the run: cells are compared within a machine, and never averaged over two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use latlab_model::results::{
    CellPlan, Factor, HostBrief, Manifest, Part, PlannedTrial, RunState, Trial,
};

use crate::run_dir::{Damage, RunDir, RunDirError};

/// Part of the memory by which what the firmware leaves to the kernel differs from boot to boot: some KiB of GiB.
const BOOTS_DIFFER: f64 = 0.01;

/// The factor of the machines; with the second name if a study has one of the first.
const MACHINE: [&str; 2] = ["machine", "machine-of-part"];

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error("{path} is a whole run, not a part of one")]
    Whole { path: PathBuf },
    #[error("{path} and {other} are parts of different runs: {what} differ")]
    Different {
        path: PathBuf,
        other: PathBuf,
        /// In the plural.
        what: &'static str,
    },
    #[error("{path} and {other} are both part {number}")]
    Twice {
        path: PathBuf,
        other: PathBuf,
        number: u32,
    },
    #[error("{path} has trial {trial}, which is not of its part")]
    Stranger { path: PathBuf, trial: u32 },
    #[error("{path} cannot be part {number} of {of}, with trials {first} to {last}")]
    Odd {
        path: PathBuf,
        number: u32,
        of: u32,
        first: u32,
        last: u32,
    },
    #[error("{file} of {path} has {} since the run", match damage { Damage::Missing => "gone", Damage::Changed => "changed" })]
    Damaged {
        path: PathBuf,
        file: String,
        damage: Damage,
    },
}

/// Parts of one run, each of them once.
#[derive(Debug)]
pub struct Parts {
    parts: BTreeMap<u32, Found>,
    of: u32,
    passed_over: Vec<PathBuf>,
    machines: Vec<Machine>,
}

#[derive(Debug)]
struct Found {
    dir: RunDir,
    manifest: Manifest,
    part: Part,
    /// Index into [`Parts::machines`].
    machine: usize,
}

/// A machine that measured parts.
#[derive(Debug)]
struct Machine {
    /// Its host name, with a number where others have it too.
    name: String,
    host_name: String,
    host: HostBrief,
}

impl Parts {
    /// Reads the parts. One that was interrupted is passed over if another directory has the same part. Fails when they are
    /// not of one run, when two whole ones are the same part, and when a file is not what it was.
    pub fn open(paths: &[PathBuf]) -> Result<Self, MergeError> {
        let mut all = Vec::new();
        for path in paths {
            all.push(Found::open(path)?);
        }
        let mut parts = Self {
            parts: BTreeMap::new(),
            of: all.first().map_or(0, |found| found.part.of),
            passed_over: Vec::new(),
            machines: Vec::new(),
        };
        // The whole ones first, so that only others are passed over.
        all.sort_by_key(|found| found.manifest.state != RunState::Complete);
        for found in all {
            parts.add(found)?;
        }
        let mut before = 0;
        for found in parts.parts.values() {
            // The next one would replace trials of the one before.
            if found.part.first <= before {
                return Err(found.odd());
            }
            before = found.part.last;
        }
        for found in parts.parts.values_mut() {
            found.machine = machine_of(found, &mut parts.machines);
        }
        Ok(parts)
    }

    fn add(&mut self, found: Found) -> Result<(), MergeError> {
        if let Some(first) = self.parts.values().next() {
            if let Some(what) = first.differs_from(&found) {
                return Err(MergeError::Different {
                    path: first.path(),
                    other: found.path(),
                    what,
                });
            }
        }
        let number = found.part.number;
        match self.parts.get(&number) {
            Some(_) if found.manifest.state != RunState::Complete => {
                self.passed_over.push(found.path());
            }
            Some(other) => {
                return Err(MergeError::Twice {
                    path: other.path(),
                    other: found.path(),
                    number,
                });
            }
            None => {
                self.parts.insert(number, found);
            }
        }
        Ok(())
    }

    /// Directories that are not used, because another one has the same part whole.
    pub fn passed_over(&self) -> &[PathBuf] {
        &self.passed_over
    }

    /// Numbers of the parts that are not there.
    pub fn missing(&self) -> Vec<u32> {
        let all = 1..=self.of;
        all.filter(|number| !self.parts.contains_key(number))
            .collect()
    }

    /// Number of parts that the run was divided into.
    pub fn of(&self) -> u32 {
        self.of
    }

    /// Parts that stopped early, by number, with the reason.
    pub fn unfinished(&self) -> Vec<(u32, String)> {
        let reason = |found: &Found| match &found.manifest.state {
            RunState::Complete => None,
            RunState::Running => Some("it still runs, or was killed".to_owned()),
            RunState::Incomplete { reason } => Some(reason.clone()),
        };
        let parts = self.parts.iter();
        parts
            .filter_map(|(number, found)| Some((*number, reason(found)?)))
            .collect()
    }

    pub fn study(&self) -> &str {
        let first = self.parts.values().next();
        first.map_or("", |found| &found.manifest.study)
    }

    /// Copies all trials into an empty run directory, and writes its manifest last.
    pub fn merge_into(&self, dir: &RunDir, id: String) -> Result<Manifest, MergeError> {
        let factor = self.factor();
        let mut manifest = self.manifest(id, factor);
        if let Some(first) = self.parts.values().next() {
            dir.write("study.yaml", &first.dir.read("study.yaml")?)?;
        }
        for found in self.parts.values() {
            let name = &*self.machines[found.machine].name;
            found.copy_into(dir, factor.map(|factor| (factor, name)))?;
        }
        manifest.checksums = dir.checksums()?;
        dir.write_manifest(&manifest)?;
        Ok(manifest)
    }

    /// The name of the machines' factor, if there is more than one.
    fn factor(&self) -> Option<&'static str> {
        let first = self.parts.values().next()?;
        let taken = |name: &str| first.manifest.factors.iter().any(|f| f.name == name);
        let name = MACHINE[usize::from(taken(MACHINE[0]))];
        (self.machines.len() > 1).then_some(name)
    }

    fn manifest(&self, id: String, factor: Option<&str>) -> Manifest {
        let all = || self.parts.values().map(|found| &found.manifest);
        let first = all().next().cloned();
        let mut merged = first.expect("parts are of at least one directory");
        merged.id = id;
        merged.part = None;
        merged.started = all()
            .map(|part| part.started.clone())
            .min()
            .unwrap_or_default();
        merged.finished = all().filter_map(|part| part.finished.clone()).max();
        merged.state = self.state();
        let hosts: Vec<&HostBrief> = self.machines.iter().map(|machine| &machine.host).collect();
        merged.host = HostBrief::joined(&hosts);
        merged.versions = BTreeMap::new();
        for part in all() {
            for (tool, version) in &part.versions {
                let known = merged.versions.entry(tool.clone()).or_default();
                if !known.split(", ").any(|known| known == version) {
                    *known += if known.is_empty() { "" } else { ", " };
                    *known += version;
                }
            }
        }
        if let Some(factor) = factor {
            self.divide(&mut merged, factor);
        }
        merged
    }

    /// Makes the machine a factor: each cell once for each machine, as that machine planned it.
    fn divide(&self, merged: &mut Manifest, name: &str) {
        merged.factors.push(Factor {
            name: name.into(),
            path: String::new(),
            levels: self
                .machines
                .iter()
                .map(|machine| machine.name.clone())
                .collect(),
        });
        (merged.cells, merged.topologies) = (Vec::new(), Vec::new());
        for (index, machine) in self.machines.iter().enumerate() {
            let mut all = self.parts.values();
            let Some(found) = all.find(|found| found.machine == index) else {
                continue;
            };
            let offset = merged.topologies.len();
            for mut topology in found.manifest.topologies.clone() {
                topology.levels.insert(name.into(), machine.name.clone());
                merged.topologies.push(topology);
            }
            for mut cell in found.manifest.cells.clone() {
                let host = &machine.host;
                let about = format!("{}, {} cores, Linux {}", host.cpu, host.cores, host.kernel);
                cell.id = cell_of(&cell.id, name, &machine.name);
                cell.levels.insert(name.into(), machine.name.clone());
                cell.environment.facts.insert(name.into(), about);
                cell.topology += offset;
                merged.cells.push(cell);
            }
        }
        for planned in &mut merged.order {
            let mut all = self.parts.values();
            if let Some(found) = all.find(|found| found.part.has(planned.trial)) {
                let machine = &self.machines[found.machine];
                planned.cell = cell_of(&planned.cell, name, &machine.name);
            }
        }
        // A trial of a part that is missing has no machine, and not every machine has every cell.
        let cells: BTreeSet<String> = merged.cells.iter().map(|cell| cell.id.clone()).collect();
        let has_machine = |planned: &PlannedTrial| cells.contains(&planned.cell);
        merged.order.retain(has_machine);
        let order = merged.order.iter();
        let measured: BTreeSet<&str> = order.map(|planned| &*planned.cell).collect();
        merged.cells.retain(|cell| measured.contains(&*cell.id));
        let count = |cell: &CellPlan| {
            let order = merged.order.iter();
            order.filter(|planned| planned.cell == cell.id).count() as u32
        };
        merged.replicates = merged.cells.iter().map(count).max().unwrap_or_default();
    }

    fn state(&self) -> RunState {
        let missing = self.missing();
        let mut reasons = Vec::new();
        if !missing.is_empty() {
            reasons.push(format!("part {} of {} missing", numbers(&missing), self.of));
        }
        for (number, reason) in self.unfinished() {
            reasons.push(format!("part {number}: {reason}"));
        }
        match reasons.is_empty() {
            true => RunState::Complete,
            false => RunState::Incomplete {
                reason: reasons.join("; "),
            },
        }
    }
}

impl Found {
    fn open(path: &Path) -> Result<Self, MergeError> {
        let dir = RunDir::open(path)?;
        let manifest = dir.read_manifest()?;
        let Some(part) = manifest.part.clone() else {
            return Err(MergeError::Whole { path: path.into() });
        };
        let found = Self {
            dir,
            manifest,
            part,
            machine: 0,
        };
        let part = &found.part;
        let trials = found.manifest.order.len() as u32;
        if !(1..=part.of).contains(&part.number) || part.of > trials || part.last > trials {
            return Err(found.odd());
        }
        let (dir, checksums) = (&found.dir, &found.manifest.checksums);
        if let Some((file, damage)) = dir.verify(checksums).into_iter().next() {
            return Err(MergeError::Damaged {
                path: path.into(),
                file,
                damage,
            });
        }
        Ok(found)
    }

    fn odd(&self) -> MergeError {
        let part = &self.part;
        MergeError::Odd {
            path: self.path(),
            number: part.number,
            of: part.of,
            first: part.first,
            last: part.last,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.root().to_owned()
    }

    /// The first thing by which it is another run than `other`.
    fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let (a, b) = (&self.manifest, &other.manifest);
        let text = |found: &Self| found.dir.read("study.yaml").ok();
        let levels = |manifest: &Manifest| -> Vec<_> {
            let cells = manifest.cells.iter();
            cells
                .map(|cell| (cell.id.clone(), cell.levels.clone()))
                .collect()
        };
        let differences = [
            (
                a.study != b.study || text(self) != text(other),
                "their studies",
            ),
            (a.seed != b.seed, "their seeds"),
            (a.replicates != b.replicates, "their numbers of replicates"),
            (self.part.of != other.part.of, "their numbers of parts"),
            // Options of the run are in its description.
            (a.description != b.description, "their options"),
            (a.order != b.order || levels(a) != levels(b), "their trials"),
            (a.measurements != b.measurements, "their measurements"),
        ];
        let mut differences = differences.into_iter();
        differences.find_map(|(differ, what)| differ.then_some(what))
    }

    /// Copies the files of its trials. With a machine, the records name the machine's cells.
    fn copy_into(&self, to: &RunDir, machine: Option<(&str, &str)>) -> Result<(), MergeError> {
        for name in self.dir.checksums()?.into_keys() {
            let Some(directory) = name.strip_prefix("trials/").and_then(|n| n.split_once('/'))
            else {
                continue;
            };
            let number = directory.0.split('-').next().and_then(|n| n.parse().ok());
            let number = number.unwrap_or_default();
            if !self.part.has(number) {
                return Err(MergeError::Stranger {
                    path: self.path(),
                    trial: number,
                });
            }
            let record = directory.1 == "trial.json";
            match machine.filter(|_| record) {
                None => to.copy(&self.dir, &name)?,
                Some((factor, machine)) => {
                    let mut trial: Trial = self.dir.read_record(&name)?;
                    trial.cell = cell_of(&trial.cell, factor, machine);
                    to.write_record(&name, &trial)?;
                }
            }
        }
        Ok(())
    }
}

/// The index of a part's machine, which is added if it is new: another machine, or another kernel on the same one.
fn machine_of(found: &Found, machines: &mut Vec<Machine>) -> usize {
    let (host_name, host) = (&found.part.machine, &found.manifest.host);
    let has_name = |m: &&Machine| m.host_name == *host_name;
    let is_same = |m: &Machine| has_name(&m) && is_same_host(&m.host, host);
    if let Some(known) = machines.iter().position(is_same) {
        return known;
    }
    let name = match machines.iter().filter(has_name).count() {
        0 => host_name.clone(),
        others => format!("{host_name}#{}", others + 1),
    };
    machines.push(Machine {
        name,
        host_name: host_name.clone(),
        host: host.clone(),
    });
    machines.len() - 1
}

fn is_same_host(one: &HostBrief, other: &HostBrief) -> bool {
    let memory_bytes = one.memory_bytes;
    let difference = memory_bytes.abs_diff(other.memory_bytes) as f64;
    let same_memory = HostBrief {
        memory_bytes,
        ..other.clone()
    };
    *one == same_memory && difference <= memory_bytes as f64 * BOOTS_DIFFER
}

fn cell_of(cell: &str, factor: &str, machine: &str) -> String {
    format!("{cell}/{factor}={machine}")
}

/// Numbers for people: `2, 3 and 7`.
pub fn numbers(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
