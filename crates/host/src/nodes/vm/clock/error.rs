//! Errors of comparing clocks.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::super::channel::error as channel;

/// Why the clocks could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The shared page could not be mapped.
    #[error("cannot map the clock page {}: {source}", path.display())]
    Page { path: PathBuf, source: io::Error },
    /// The guest does not answer on the page.
    #[error("the guest does not answer on the clock page ({what}, waited {:.1} s){said}", after.as_secs_f64())]
    Silent {
        what: &'static str,
        after: Duration,
        /// The agent's output.
        said: String,
    },
    #[error(transparent)]
    Channel(#[from] channel::Error),
}
