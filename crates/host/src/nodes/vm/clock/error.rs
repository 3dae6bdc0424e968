//! Errors of comparing clocks.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::super::channel::error as channel;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot map the clock page {}: {source}", path.display())]
    Page { path: PathBuf, source: io::Error },
    #[error("the guest does not answer on the clock page ({what}, waited {:.1} s){said}", after.as_secs_f64())]
    Silent {
        what: &'static str,
        after: Duration,
        said: String,
    },
    #[error(transparent)]
    Channel(#[from] channel::Error),
}
