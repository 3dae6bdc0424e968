//! The one place where latlab asks the kernel for something by system call.
//!
//! Everything here is mechanism: it makes, finds and removes namespaces, mounts, processes, taps
//! and files, and knows nothing of labs. Policy (what to make, in which order, and the journal
//! that undoes it) is in the modules that call it. `unsafe` is allowed only here, in the few
//! places that have no safe wrapper: leaving a namespace, `clone3`, `sched_setattr`, and ioctls.

pub mod bpf;
pub mod cached;
mod calls;
pub mod cgroup_entry;
pub mod command;
pub mod devices;
pub mod ethtool;
pub mod feature;
pub mod file;
pub mod huge_pages;
pub mod inside;
pub mod last_act;
pub mod loop_device;
pub mod mount;
pub mod mount_ns;
pub mod mounts_of;
pub mod named;
pub mod net_settings;
pub mod netns;
pub mod notify;
pub mod proc;
pub mod process;
pub mod random;
pub mod sched;
pub mod sealed;
pub mod seccomp;
pub mod shared;
pub mod sockets;
pub mod spawn;
pub mod sriov;
pub mod syn_filter;
pub mod tap;
pub mod tcp_repair;
pub mod tcp_table;
pub mod tree;
pub mod vfio;

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
fn checked(result: impl Into<i64>) -> io::Result<()> {
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
