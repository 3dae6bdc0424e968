//! Why a run ended before its last trial.

use std::io;
use std::path::Path;

use latlab_samples::{RunDirError, SamplesError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error("the run cannot go on after replicate {replicate}: {reason}")]
    Between { replicate: u32, reason: String },
    /// The next lab would be measured beside the remains.
    #[error("lab `{lab}` could not be removed")]
    Destroy {
        lab: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// A hint in one line; `runs` is where run directories are made.
    pub fn hint(&self, runs: &Path) -> String {
        match self {
            Error::Destroy { lab, .. } => {
                return format!("`latlab destroy {lab}`, then run the study again");
            }
            Error::Between { .. } => {
                return "look after that host, then run the study again".into();
            }
            _ => {}
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
