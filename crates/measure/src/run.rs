//! Runs a study: deploys each lab, measures in the planned order, writes the run directory.
//!
//! The manifest is written first, as running, and last, as complete. A run that stops in between leaves its results
//! and a directory that is marked incomplete. A trial that fails is recorded and the run goes on; a full disk ends it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use latlab_host::dirs::Dirs;
use latlab_host::lab::{self, Lab};
use latlab_model::facts::Facts;
use latlab_model::plan::{PartNumber, RunPlan, Visit};
use latlab_model::results::{
    Manifest, NodeStart, Part, RunState, Trace, Trial, TrialOutcome, WorkloadResult,
};
use latlab_model::spec::{Measurement, Study};
use latlab_samples::{RunDir, RunDirError, SampleWriter, SamplesError, table};

use crate::error::{self, one_line};
use crate::measured::{Kept, Measured, Recorded, Written};
use crate::{repeat, trial};

/// Reserved in the run directory, so that a full disk still takes the record of its being full.
const RESERVE_BYTES: usize = 256 << 10;
const RESERVE: &str = ".reserve";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// The next lab would be measured beside the remains.
    #[error("lab `{lab}` could not be removed")]
    Destroy {
        lab: String,
        source: Box<lab::Error>,
    },
}

impl Error {
    /// A hint in one line; `runs` is where run directories are made.
    pub fn hint(&self, runs: &Path) -> String {
        if let Error::Destroy { lab, .. } = self {
            return format!("`latlab destroy {lab}`, then run the study again");
        }
        match system_error(self).map(io::Error::kind) {
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => format!(
                "free some space in {}, or name another place with --runs",
                runs.display()
            ),
            _ => "name a directory that can be written with --runs".into(),
        }
    }
}

/// The system error among the causes of an error.
fn system_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        // Transparent errors hide theirs from the chain.
        let inner = match error.downcast_ref() {
            Some(Error::RunDir(inner)) => Some(inner as &(dyn std::error::Error + 'static)),
            Some(Error::Samples(inner)) => Some(inner as _),
            _ => None,
        };
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = inner.or_else(|| error.source());
    }
    None
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The lab's file, or the study's where the lab is in it: images and binds are relative to its directory.
    pub file: Option<PathBuf>,
    /// Leave the lab of a failed trial running, for inspection, and stop there.
    pub keep: bool,
    /// Only this part of the run.
    pub part: Option<PartNumber>,
}

#[derive(Debug)]
pub enum Event<'a> {
    Deploying(&'a BTreeMap<String, String>),
    /// A trial of this cell begins.
    Begin(&'a str),
    /// An attempt is discarded, and the trial made again.
    Repeat(&'a Trial),
    End(&'a Trial),
}

/// Why a trial gave no result, and what its programs wrote.
struct Failure {
    reason: String,
    kept: Kept,
}

/// A trial's place in the plan.
#[derive(Clone, Copy)]
struct Place {
    number: u32,
    cell: usize,
    replicate: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub measured: u32,
    pub failed: u32,
    /// Trials with a result from an overloaded machine.
    pub overloaded: u32,
    pub interrupted: bool,
    /// A lab was left for inspection.
    pub kept: bool,
}

pub struct Run<'a> {
    dirs: &'a Dirs,
    dir: RunDir,
    plan: &'a RunPlan,
    manifest: Manifest,
    retries: u32,
    options: &'a Options,
    stop: &'a AtomicBool,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    /// Makes the run directory below `runs` and writes the manifest.
    pub fn create(
        dirs: &'a Dirs,
        runs: &Path,
        (study, text): (&Study, &str),
        plan: &'a RunPlan,
        facts: &Facts,
        options: &'a Options,
        stop: &'a AtomicBool,
    ) -> Result<Run<'a>, Error> {
        let (id, dir) = claim(runs, &study.name)?;
        let manifest = Manifest {
            versions: versions(facts),
            part: options.part.map(|part| part_of(plan, part)),
            ..plan.manifest(study, facts, id, now())
        };
        if let Err(error) = begin(&dir, text, &manifest) {
            // A directory without a manifest is no run, and is ours alone.
            fs::remove_dir_all(dir.root()).ok();
            return Err(error);
        }
        Ok(Run {
            dirs,
            dir,
            plan,
            manifest,
            retries: study.retries,
            options,
            stop,
            outcome: Outcome::default(),
        })
    }

    pub fn directory(&self) -> &Path {
        self.dir.root()
    }

    /// Runs every trial, and marks the run complete, or incomplete with the reason. Fails when results cannot be
    /// written or a lab cannot be removed; what was measured is kept.
    pub fn execute(
        mut self,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(RunDir, Outcome), Error> {
        let result = self.visits(on_event);
        self.dir.remove(RESERVE).ok();
        self.manifest.finished = Some(now());
        self.manifest.state = match &result {
            Ok(()) if self.outcome.interrupted => RunState::Incomplete {
                reason: "it was interrupted".into(),
            },
            Ok(()) if self.outcome.kept => RunState::Incomplete {
                reason: "a trial failed and its lab was kept for inspection".into(),
            },
            Ok(()) => RunState::Complete,
            Err(error) => RunState::Incomplete {
                reason: one_line(error),
            },
        };
        if result.is_ok() {
            self.manifest.checksums = self.dir.checksums()?;
        }
        let written = self.dir.write_manifest(&self.manifest);
        result?;
        written?;
        Ok((self.dir, self.outcome))
    }

    fn visits(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<(), Error> {
        let plan = self.plan;
        for visit in plan.visits_of(self.options.part) {
            if self.stop.load(Ordering::Relaxed) {
                self.outcome.interrupted = true;
                return Ok(());
            }
            self.visit(visit, on_event)?;
            if self.outcome.kept || self.outcome.interrupted {
                return Ok(());
            }
        }
        Ok(())
    }

    fn visit(&mut self, visit: &Visit, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<(), Error> {
        let levels = &self.plan.topologies[visit.lab].levels;
        on_event(&Event::Deploying(levels));
        let plan = &self.plan.labs[visit.lab];
        let deployed = Lab::deploy(
            self.dirs,
            plan,
            &lab::Options {
                keep: self.options.keep,
                stop: Some(self.stop),
                file: self.options.file.clone(),
                ..Default::default()
            },
        );
        let lab = match deployed {
            Ok(lab) => lab,
            Err(lab::Error::Interrupted(_)) => {
                self.outcome.interrupted = true;
                self.outcome.kept = self.options.keep;
                return Ok(());
            }
            Err(error) => {
                self.outcome.kept = self.options.keep;
                return self.fail_all(visit, &one_line(&error), on_event);
            }
        };
        let before = self.outcome.failed;
        let result = self.trials(&lab, visit, on_event);
        self.outcome.kept = self.options.keep && self.outcome.failed > before;
        if !self.outcome.kept {
            let name = plan.lab.clone();
            lab.destroy().map_err(|source| Error::Destroy {
                lab: name,
                source: Box::new(source),
            })?;
        }
        result
    }

    fn trials(
        &mut self,
        lab: &Lab,
        visit: &Visit,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        for &(number, cell, measurement) in &visit.trials {
            if self.stop.load(Ordering::Relaxed) {
                self.outcome.interrupted = true;
                return Ok(());
            }
            on_event(&Event::Begin(&self.plan.cells[cell].id));
            let place = Place {
                number,
                cell,
                replicate: visit.replicate,
            };
            // The deployment is told of once.
            let is_first = visit.trials.first().is_some_and(|first| first.0 == number);
            let starts = if is_first { lab.starts() } else { &[] };
            let record = self.attempts(lab, place, measurement, starts, on_event)?;
            self.count(&record);
            on_event(&Event::End(&record));
        }
        Ok(())
    }

    /// Measures until the machine was left alone or the study's retries are used up: the record of the last
    /// attempt. Those before it are kept beside it.
    fn attempts(
        &self,
        lab: &Lab,
        place: Place,
        measurement: usize,
        starts: &[NodeStart],
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Trial, Error> {
        let mut repeats = 0;
        loop {
            let started = now();
            let result = run_one(lab, &self.plan.measurements[measurement]);
            let result = result.map_err(|mut error| Failure {
                kept: error.take_kept(),
                reason: one_line(&error),
            });
            let checks = result.as_ref().map_or(&[][..], |measured| &measured.checks);
            let again =
                repeat::is_due(checks, repeats, self.retries) && !self.stop.load(Ordering::Relaxed);
            let starts = starts.to_vec();
            let record = self.record(place, repeats, started, starts, result)?;
            if !again {
                return Ok(record);
            }
            on_event(&Event::Repeat(&record));
            self.dir.set_aside(record)?;
            repeats += 1;
            repeat::wait_for_quiet(lab, self.stop);
        }
    }

    fn count(&mut self, trial: &Trial) {
        match &trial.outcome {
            TrialOutcome::Measured => {
                self.outcome.measured += 1;
                self.outcome.overloaded += u32::from(!trial.is_valid());
            }
            TrialOutcome::Failed { .. } => self.outcome.failed += 1,
        }
    }

    fn record(
        &self,
        place: Place,
        repeats: u32,
        started: String,
        starts: Vec<NodeStart>,
        result: Result<Measured, Failure>,
    ) -> Result<Trial, Error> {
        let number = place.number;
        let (mut measured, outcome) = match result {
            Ok(measured) => (measured, TrialOutcome::Measured),
            Err(Failure { reason, kept }) => {
                let measured = Measured {
                    kept,
                    ..Measured::default()
                };
                (measured, TrialOutcome::Failed { reason })
            }
        };
        self.dir.create_trial(number)?;
        let workload = self.write_outputs(number, &mut measured)?;
        let samples = self.write_samples(number, &measured)?;
        let stolen = match measured.stolen {
            Some(stretches) => {
                let name = RunDir::stolen_name(number);
                table::write_stretches(self.dir.place(&name), &stretches)?;
                Some(name)
            }
            None => None,
        };
        let trace = match measured.trace {
            Some(recorded) => Some(self.write_trace(number, recorded)?),
            None => None,
        };
        let trial = Trial {
            trial: number,
            cell: self.plan.cells[place.cell].id.clone(),
            replicate: place.replicate,
            started,
            outcome,
            repeats,
            discarded: false,
            counters: measured.counters,
            floor: measured.floor,
            clock: measured.clock,
            stream: measured.stream,
            workload,
            checks: measured.checks,
            intruders: measured.intruders,
            nodes: measured.nodes,
            samples,
            stolen,
            trace,
            actions: measured.actions,
            starts,
        };
        self.dir.write_trial(&trial)?;
        Ok(trial)
    }

    /// Keeps what the programs of a workload wrote, also in a trial that failed.
    fn write_outputs(
        &self,
        number: u32,
        measured: &mut Measured,
    ) -> Result<Option<WorkloadResult>, Error> {
        let mut workload = measured.workload.take();
        let mut nodes = workload.iter_mut().flat_map(|result| &mut result.nodes);
        let kept = &measured.kept;
        for (index, program) in kept.programs.iter().enumerate() {
            let [output, errors] = self.write_output(number, &program.node, program)?;
            let server = match kept.servers.get(index) {
                Some(server) => {
                    let name = format!("{}.server", server.node);
                    Some(self.write_output(number, &name, server)?)
                }
                None => None,
            };
            if let Some(record) = nodes.next() {
                (record.output, record.errors, record.server) = (output, errors, server);
            }
        }
        // Servers whose clients never began.
        for server in kept.servers.iter().skip(kept.programs.len()) {
            self.write_output(number, &format!("{}.server", server.node), server)?;
        }
        Ok(workload)
    }

    fn write_output(
        &self,
        number: u32,
        name: &str,
        written: &Written,
    ) -> Result<[String; 2], Error> {
        let names = RunDir::output_names(number, name);
        self.dir.write(&names[0], &written.output)?;
        self.dir.write(&names[1], &written.errors)?;
        Ok(names)
    }

    /// Writes one sample a packet or transaction, if there are any.
    fn write_samples(&self, number: u32, measured: &Measured) -> Result<Option<String>, Error> {
        let timed = measured.trace.as_ref().map(|trace| &trace.timed);
        if measured.samples.is_empty() && (timed.is_none() || measured.counters.sent == 0) {
            return Ok(None);
        }
        let mut writer = SampleWriter::create(self.dir.place(&RunDir::samples_name(number)))?;
        writer.push_batch(&measured.samples)?;
        let mut written = Ok(());
        if let Some(timed) = timed {
            timed.each_sample(|sample| {
                if written.is_ok() {
                    written = writer.push(&sample);
                }
            });
        }
        written?;
        writer.finish()?;
        Ok(Some(RunDir::samples_name(number)))
    }

    fn write_trace(&self, number: u32, recorded: Recorded) -> Result<Trace, Error> {
        let mut trace = recorded.trace;
        trace.passages = RunDir::passages_name(number);
        let mut writer = table::PassageWriter::create(self.dir.place(&trace.passages))?;
        let mut written = Ok(());
        recorded.timed.each_passage(|passage| {
            if written.is_ok() {
                written = writer.push(passage);
            }
        });
        written?;
        writer.finish()?;
        if !recorded.events.is_empty() {
            let name = RunDir::events_name(number);
            table::write_events(self.dir.place(&name), &recorded.events)?;
            trace.events = Some(name);
        }
        if !recorded.stacks.is_empty() {
            let name = RunDir::stacks_name(number);
            table::write_stacks(self.dir.place(&name), &recorded.stacks)?;
            trace.stacks = Some(name);
        }
        Ok(trace)
    }

    fn fail_all(
        &mut self,
        visit: &Visit,
        reason: &str,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        for &(number, cell, _) in &visit.trials {
            let place = Place {
                number,
                cell,
                replicate: visit.replicate,
            };
            let failure = Failure {
                reason: reason.to_string(),
                kept: Kept::default(),
            };
            let record = self.record(place, 0, now(), Vec::new(), Err(failure))?;
            self.count(&record);
            on_event(&Event::End(&record));
        }
        Ok(())
    }
}

fn begin(dir: &RunDir, study: &str, manifest: &Manifest) -> Result<(), Error> {
    dir.write("study.yaml", study.as_bytes())?;
    dir.write(RESERVE, &[0; RESERVE_BYTES])?;
    Ok(dir.write_manifest(manifest)?)
}

fn run_one(lab: &Lab, measurement: &Measurement) -> Result<Measured, error::Error> {
    let _scripts = lab.run_scripts()?;
    let result = trial::measure(lab, measurement);
    // The error of a probe whose node died says only that the probe ended.
    result.map_err(|mut error| match lab.check_nodes() {
        Err(dead) => error::Error::Workload {
            kept: error.take_kept(),
            source: Box::new(dead.into()),
        },
        Ok(()) => error,
    })
}

/// Makes the run's directory, named by study and time, with a number if two runs begin in one second.
/// Makes the directory of a run, named by the study and the time.
pub fn claim(runs: &Path, study: &str) -> Result<(String, RunDir), Error> {
    let stamp = stamp();
    let mut id = format!("{study}-{stamp}");
    let mut number = 1;
    loop {
        match RunDir::create(runs.join(&id)) {
            Ok(dir) => return Ok((id, dir)),
            Err(RunDirError::Taken { .. }) if number < 100 => {
                number += 1;
                id = format!("{study}-{stamp}-{number}");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The time now, as names of directories have it.
pub fn stamp() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y%m%d-%H%M%S").to_string()
}

fn part_of(plan: &RunPlan, part: PartNumber) -> Part {
    let trials = || {
        let visits = plan.visits_of(Some(part)).iter();
        visits.flat_map(|visit| visit.trials.iter().map(|trial| trial.0))
    };
    Part {
        number: part.number,
        of: part.of,
        machine: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        first: trials().min().unwrap_or_default(),
        last: trials().max().unwrap_or_default(),
    }
}

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

fn versions(facts: &Facts) -> BTreeMap<String, String> {
    let mut versions = facts.tools.clone();
    versions.insert("latlab".into(), env!("CARGO_PKG_VERSION").into());
    versions
}
