//! The trials of a run in their order, and its manifest from running to complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use latlab_model::facts::Facts;
use latlab_model::plan::{PartNumber, RunPlan, Visit};
use latlab_model::results::{Manifest, RunState, Trial, TrialOutcome};
use latlab_model::spec::Study;
use latlab_samples::RunDir;

use super::directory::{RESERVE, begin, claim};
use super::error::Error;
use super::labs::{Deployed, Labs, NotDeployed};
use super::origin::{part_of, versions};
use super::record::{self, Failure, Order, now};
use crate::error::one_line;
use crate::repeat;

#[derive(Debug, Clone, Default)]
pub struct Options {
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
            ..plan.manifest(study, id, now())
        };
        if let Err(error) = begin(&dir, text, &manifest) {
            // A directory without a manifest is no run, and is ours alone.
            fs::remove_dir_all(dir.root()).ok();
            return Err(error);
        }
        Ok(Run {
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
        labs: &dyn Labs,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(RunDir, Outcome), Error> {
        let result = self.visits(labs, on_event);
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

    fn visits(
        &mut self,
        labs: &dyn Labs,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let plan = self.plan;
        let mut last = None;
        for visit in plan.visits_of(self.options.part) {
            if self.stop.load(Ordering::Relaxed) {
                self.outcome.interrupted = true;
                return Ok(());
            }
            // The first one finds its machines as they are.
            let before = last.replace(visit.replicate);
            if let Some(replicate) = before.filter(|&before| before != visit.replicate) {
                labs.between_replicates()
                    .map_err(|reason| Error::Between { replicate, reason })?;
            }
            self.visit(labs, visit, on_event)?;
            if self.outcome.kept || self.outcome.interrupted {
                return Ok(());
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        labs: &dyn Labs,
        visit: &Visit,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let levels = &self.plan.topologies[visit.lab].levels;
        on_event(&Event::Deploying(levels));
        let lab = match labs.deploy(visit.lab) {
            Ok(lab) => lab,
            Err(NotDeployed::Interrupted) => {
                self.outcome.interrupted = true;
                self.outcome.kept = self.options.keep;
                return Ok(());
            }
            Err(NotDeployed::Failed(reason)) => {
                self.outcome.kept = self.options.keep;
                return self.fail_all(visit, &reason, on_event);
            }
        };
        let before = self.outcome.failed;
        let result = self.trials(&*lab, visit, on_event);
        self.outcome.kept = self.options.keep && self.outcome.failed > before;
        if !self.outcome.kept {
            lab.destroy()?;
        }
        result
    }

    fn trials(
        &mut self,
        lab: &dyn Deployed,
        visit: &Visit,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        for (index, &(number, cell, measurement)) in visit.trials.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                self.outcome.interrupted = true;
                return Ok(());
            }
            let order = Order {
                // The deployment is told of once.
                starts: if index == 0 { lab.starts() } else { &[] },
                ..self.order(visit, number, cell, measurement)
            };
            on_event(&Event::Begin(order.cell));
            let record = self.attempts(lab, order, on_event)?;
            self.count(&record);
            on_event(&Event::End(&record));
        }
        Ok(())
    }

    fn order(&self, visit: &Visit, number: u32, cell: usize, measurement: usize) -> Order<'a> {
        Order {
            number,
            cell: &self.plan.cells[cell].id,
            replicate: visit.replicate,
            repeats: 0,
            measurement: &self.plan.measurements[measurement],
            seed: self.plan.seed_of(visit.replicate, measurement),
            starts: &[],
        }
    }

    /// Measures until the machine was left alone or the study's retries are used up: the record of the last
    /// attempt. Those before it are kept beside it.
    fn attempts(
        &self,
        lab: &dyn Deployed,
        mut order: Order<'_>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Trial, Error> {
        loop {
            let record = lab.measure(&order, &self.dir)?;
            let again = repeat::is_due(&record.checks, order.repeats, self.retries)
                && !self.stop.load(Ordering::Relaxed);
            if !again {
                return Ok(record);
            }
            on_event(&Event::Repeat(&record));
            self.dir.set_aside(record)?;
            order.repeats += 1;
            lab.wait_for_quiet(self.stop);
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

    fn fail_all(
        &mut self,
        visit: &Visit,
        reason: &str,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        for &(number, cell, measurement) in &visit.trials {
            let order = self.order(visit, number, cell, measurement);
            let record = record::write(&self.dir, &order, now(), Err(Failure::new(reason)))?;
            self.count(&record);
            on_event(&Event::End(&record));
        }
        Ok(())
    }
}
