//! Errors of containers.

use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    #[error("{runtime} cannot start the container: {message}")]
    Runtime { runtime: String, message: String },
    #[error("the first process of the container did not start: {0}")]
    Init(String),
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot run `{program}` in the container: {reason}")]
    Command { program: String, reason: String },
    #[error("the first process of the container runs without its seccomp filter")]
    Unfiltered,
    #[error("the container has ended")]
    Ended,
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
