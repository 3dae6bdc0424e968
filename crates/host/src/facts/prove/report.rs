//! Outcomes of trials, and where a proof reports them.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::facts::options::ReadOptions;

/// Why an ordinary user learns little; `doctor` knows it by these words.
pub const NEEDS_ROOT: &str = "needs root to prove";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::facts) enum Outcome {
    Works(String),
    Fails(String),
    Unproven(String),
}

pub(super) struct Report {
    pub(super) options: Arc<ReadOptions>,
    pub(super) sender: Sender<(&'static str, Outcome)>,
}

impl Report {
    pub(super) fn wants(&self, name: &str) -> bool {
        self.options.prove.contains(name)
    }

    pub(super) fn note(&self, name: &'static str, outcome: Outcome) {
        // The receiver is gone once the timeout is over.
        let _ = self.sender.send((name, outcome));
    }

    /// Tries `name` if it is wanted; `how` says what a success showed.
    pub(super) fn try_one<T, E: Refusal>(
        &self,
        name: &'static str,
        how: &str,
        trial: impl FnOnce() -> Result<T, E>,
    ) {
        if self.wants(name) {
            self.note(name, outcome(&trial(), how));
        }
    }

    pub(super) fn refuse_all(&self, covers: &[&'static str], error: &impl Refusal) {
        for name in covers {
            self.note(name, refused(error));
        }
    }
}

/// An error that may carry an errno.
pub(super) trait Refusal: Display {
    fn errno(&self) -> Option<i32>;
}

impl Refusal for io::Error {
    fn errno(&self) -> Option<i32> {
        self.raw_os_error()
    }
}

impl Refusal for crate::sys::Error {
    fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl Refusal for latlab_netlink::Error {
    fn errno(&self) -> Option<i32> {
        latlab_netlink::Error::errno(self)
    }
}

impl Refusal for crate::cgroup::Error {
    fn errno(&self) -> Option<i32> {
        match self {
            crate::cgroup::Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

pub(super) fn outcome<T, E: Refusal>(result: &Result<T, E>, how: &str) -> Outcome {
    match result {
        Ok(_) => Outcome::Works(how.into()),
        Err(error) => refused(error),
    }
}

pub(super) fn refused(error: &impl Refusal) -> Outcome {
    let privilege = matches!(error.errno(), Some(libc::EPERM | libc::EACCES));
    if privilege && !is_root() {
        Outcome::Unproven(NEEDS_ROOT.into())
    } else {
        Outcome::Fails(error.to_string())
    }
}

pub(in crate::facts) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
