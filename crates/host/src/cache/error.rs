//! Errors of the cache.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("another latlab takes from or fills the cache, and holds {}", .0.display())]
    Busy(PathBuf),
    #[error(transparent)]
    Lock(#[from] crate::sys::Error),
}

impl Error {
    /// Advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Busy(_) => "try again when it has deployed, or made its image",
            Self::Io { .. } | Self::Lock(_) => "check the directory and its permissions",
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
