//! Runs a study: deploys each lab, measures in the planned order, writes the run directory.
//!
//! The manifest is written first, as running, and last, as complete. A run that stops in between leaves its results
//! and a directory that is marked incomplete. A trial that fails is recorded and the run goes on; a full disk ends it.

mod directory;
mod error;
mod here;
mod labs;
mod origin;
pub mod record;
mod trials;

pub use directory::{claim, stamp};
pub use error::Error;
pub use here::Here;
pub use labs::{Deployed, Labs, NotDeployed};
pub use record::{Failure, Order};
pub use trials::{Event, Options, Outcome, Run};
