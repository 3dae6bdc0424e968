//! Labs on this machine.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{self, Lab};
use latlab_model::plan::RunPlan;
use latlab_model::results::{NodeStart, Trial};
use latlab_samples::RunDir;

use super::error::Error;
use super::labs::{Deployed, Labs, NotDeployed};
use super::record::{self, Order, now};
use crate::error::{self, one_line};
use crate::measured::Measured;
use crate::{repeat, trial};

pub struct Here<'a> {
    pub dirs: &'a Dirs,
    pub plan: &'a RunPlan,
    /// The lab's file, or the study's where the lab is in it: images and binds are relative to its directory.
    pub file: Option<PathBuf>,
    /// A deployment that fails is left as it is, for inspection.
    pub keep: bool,
    pub stop: &'a AtomicBool,
}

impl Labs for Here<'_> {
    fn deploy(&self, lab: usize) -> Result<Box<dyn Deployed + '_>, NotDeployed> {
        let options = lab::Options {
            keep: self.keep,
            stop: Some(self.stop),
            file: self.file.clone(),
            ..Default::default()
        };
        match Lab::deploy(self.dirs, &self.plan.labs[lab], &options) {
            Ok(lab) => Ok(Box::new(lab)),
            Err(lab::Error::Interrupted(_)) => Err(NotDeployed::Interrupted),
            Err(error) => Err(NotDeployed::Failed(one_line(&error))),
        }
    }
}

impl Deployed for Lab {
    fn starts(&self) -> &[NodeStart] {
        Lab::starts(self)
    }

    fn measure(&self, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error> {
        let started = now();
        let result = measure(self, order);
        record::write(dir, order, started, result.map_err(Into::into))
    }

    fn wait_for_quiet(&self, stop: &AtomicBool) {
        repeat::wait_for_quiet(self, stop);
    }

    fn destroy(self: Box<Self>) -> Result<(), Error> {
        let name = self.plan().lab.clone();
        Lab::destroy(*self).map_err(|source| Error::Destroy {
            lab: name,
            source: Box::new(source),
        })
    }
}

fn measure(lab: &Lab, order: &Order<'_>) -> Result<Measured, error::Error> {
    let _scripts = lab.run_scripts()?;
    let result = trial::measure(lab, order.measurement, order.seed);
    // The error of a probe whose node died says only that the probe ended.
    result.map_err(|mut error| match lab.check_nodes() {
        Err(dead) => error::Error::Workload {
            kept: error.take_kept(),
            source: Box::new(dead.into()),
        },
        Ok(()) => error,
    })
}
