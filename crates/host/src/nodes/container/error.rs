//! Errors of containers.

use std::io;
use std::path::{Path, PathBuf};

use latlab_model::kinds::Runtime;

use crate::borrowed;
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
    #[error("cannot run `{program}` in the container: {reason}")]
    Command { program: String, reason: String },
    #[error("the first process of the container runs without its seccomp filter")]
    Unfiltered,
    #[error("the first process of the container has rights that it was not given")]
    Rights,
    #[error("the container has ended")]
    Ended,
    /// CRIU could not dump or restore it.
    #[error("CRIU cannot {verb} the container: {reason}")]
    Criu {
        verb: &'static str,
        reason: String,
        log: PathBuf,
    },
    /// CRIU is there and does not work on this machine.
    #[error("CRIU does not work here: {0}")]
    Unproven(String),
    #[error("the container cannot be kept: {0}")]
    NotKept(String),
    #[error("the container cannot be saved or moved: {0} stays beside it and would lose it")]
    Watched(Runtime),
    /// Connections without a descriptor.
    #[error("it would lose {0}")]
    Undrained(String),
    #[error("the network cannot follow the container: {0}")]
    NotMoved(String),
    #[error(transparent)]
    Borrowed(#[from] borrowed::Error),
}

impl Error {
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Borrowed(error) => error.hint(),
            Self::Unproven(_) => {
                "`latlab doctor` proves CRIU as well and says what this costs".into()
            }
            Self::NotKept(_) => {
                "commands that are to be kept are started by `latlab exec --detach`".into()
            }
            Self::Undrained(_) => {
                "their peers have not read them, or a server does not accept; try again, or end these".into()
            }
            Self::Watched(_) => {
                "`runtime: crun` and `runc` leave nothing beside a container".into()
            }
            Self::Criu { log, .. } => format!("the errors are in {}", log.display()),
            _ => return None,
        })
    }

    pub(super) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let failed = sys::Error::of(action, path.display());
        |source: E| Self::Sys(failed(source))
    }
}
