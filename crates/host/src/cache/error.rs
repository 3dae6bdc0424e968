//! Errors of the cache.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("another latlab takes from or fills the cache, and holds {}", .0.display())]
    Busy(PathBuf),
}

impl Error {
    /// Advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Busy(_) => "try again when it has deployed, or made its image",
            Self::Sys(_) => "check the directory and its permissions",
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let failed = sys::Error::of(action, path.display());
        |source: io::Error| Self::Sys(failed(source))
    }
}
