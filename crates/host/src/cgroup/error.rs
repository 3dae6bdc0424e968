//! Errors of limits and groups.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys;

pub(crate) const PROCESSES: &str = "the number of processes";
pub(crate) const DEVICES: &str = "access to devices";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("its group cannot be frozen: it is in no hierarchy with a freezer")]
    NoFreezer,
    #[error("some of its processes still run {waited_ms} ms after its group was frozen")]
    Running { waited_ms: u128 },
    #[error("cannot limit {what} with cgroups: {reason}")]
    Unavailable { what: &'static str, reason: String },
    #[error("limit {what}={value} is out of range: {reason}")]
    Range {
        what: &'static str,
        value: String,
        reason: String,
    },
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("`{0}` does not name a cgroup of a node")]
    Name(String),
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: String,
        path: PathBuf,
        source: io::Error,
    },
    /// On version 2 a group with processes of its own hands nothing on to groups below it.
    #[error("processes {pids:?} run in {} itself, so no group below it can have limits", path.display())]
    Occupied { path: PathBuf, pids: Vec<u32> },
    #[error("{} still holds processes {pids:?} after {waited_ms} ms", path.display())]
    Populated {
        path: PathBuf,
        pids: Vec<u32>,
        waited_ms: u128,
    },
    /// The kernel lists no process, and has not yet taken the last thread of one apart.
    #[error("{} still holds a process that ends, after {waited_ms} ms{}", path.display(), which(threads))]
    Ending {
        path: PathBuf,
        threads: Vec<String>,
        waited_ms: u128,
    },
}

impl Error {
    pub(super) fn io(action: impl Into<String>, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let (action, path) = (action.into(), path.to_owned());
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn which(threads: &[String]) -> String {
    match threads {
        [] => String::new(),
        threads => format!(": {}", threads.join(", ")),
    }
}
