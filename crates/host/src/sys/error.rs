//! Failures of system calls, one or several.

use std::fmt;
use std::io;

/// A system call that failed: what was being done, to what, and the system's reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {object}: {source}")]
pub struct Error {
    /// The action, in the infinitive: "mount", "enter network namespace".
    pub action: &'static str,
    /// The file, process or interface it was done to.
    pub object: String,
    pub source: io::Error,
}

impl Error {
    /// For `map_err`: takes any error that is an `io::Error` at heart.
    pub(crate) fn of<E: Into<io::Error>>(
        action: &'static str,
        object: impl fmt::Display,
    ) -> impl FnOnce(E) -> Self {
        let object = object.to_string();
        move |source| Self {
            action,
            object,
            source: source.into(),
        }
    }

    /// An error of our own making, with its reason in words.
    pub(crate) fn because(
        action: &'static str,
        object: impl fmt::Display,
        kind: io::ErrorKind,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            action,
            object: object.to_string(),
            source: io::Error::new(kind, reason.into()),
        }
    }

    /// True when the object was not there.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// The answer of a system call that fails with a number below zero, and its reason in `errno`.
pub(super) fn checked(result: impl Into<i64>) -> io::Result<()> {
    match result.into() {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Several failures of a removal that went on after each; never empty.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Errors(pub Vec<Error>);

impl Errors {
    /// `Ok` when nothing failed.
    pub(crate) fn check(errors: Vec<Error>) -> Result<(), Self> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self(errors))
        }
    }
}
