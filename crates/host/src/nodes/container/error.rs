//! Errors of containers.

use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::sys;
use crate::sys::process::ProcessId;

/// Errors of containers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// The cgroup refused something.
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    /// The runtime reported a failure.
    #[error("{runtime} cannot start the container: {message}")]
    Runtime { runtime: String, message: String },
    /// The first process did not say that it runs.
    #[error("the first process of the container did not start: {0}")]
    Init(String),
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action, in the infinitive.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A command cannot be run inside.
    #[error("cannot run `{program}` in the container: {reason}")]
    Command { program: String, reason: String },
    /// The kernel did not put the first process under the filter.
    #[error("the first process of the container runs without its seccomp filter")]
    Unfiltered,
    /// The container is not there any more.
    #[error("the container has ended")]
    Ended,
    /// A process outlived SIGKILL.
    #[error("process {} of the container does not end; it waits inside the kernel", .0.pid)]
    Stuck(ProcessId),
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
