//! The labs of a run, wherever they are deployed.

use std::sync::atomic::AtomicBool;

use latlab_model::results::{NodeStart, Trial};
use latlab_samples::RunDir;

use super::error::Error;
use super::record::Order;

/// Why a lab is not there.
#[derive(Debug)]
pub enum NotDeployed {
    Interrupted,
    Failed(String),
}

/// The labs that a run's plan has.
pub trait Labs {
    /// Deploys one, by its index in [`RunPlan::labs`](latlab_model::plan::RunPlan::labs).
    fn deploy(&self, lab: usize) -> Result<Box<dyn Deployed + '_>, NotDeployed>;

    /// Called between two replicates, while no lab is up. Fails with the reason why the run cannot go on.
    fn between_replicates(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A lab that is up.
pub trait Deployed {
    /// How long its containers and VMs took to start, where that is known.
    fn starts(&self) -> &[NodeStart];

    /// Measures once, and writes the trial into the run directory, also one that failed.
    fn measure(&self, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error>;

    /// Waits until its machines are quiet, for a bounded time.
    fn wait_for_quiet(&self, stop: &AtomicBool);

    /// Removes it. Fails when something of it is left.
    fn destroy(self: Box<Self>) -> Result<(), Error>;
}
