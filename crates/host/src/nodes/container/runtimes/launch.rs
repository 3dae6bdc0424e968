//! The order to a runtime: a command that starts the container, and all that it is made of.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::nodes::container::config::Config;
use crate::nodes::container::handle::ContainerConfig;
use crate::sys::process::LAB_VARIABLE;

/// Name of the container among those in its runtime's state directory, where it is alone.
pub(super) const ID: &str = "node";

/// The node's directory of its runtime's state.
pub(super) const STATE: &str = "runtime";

/// Starts a program in the background, as a child of no one: latlab may go on for long and would have to collect it.
pub(super) const BACKGROUND: &str = "exec \"$@\" &";

/// All that a runtime is told.
pub(in crate::nodes::container) struct Input<'a> {
    pub config: &'a ContainerConfig,
    pub document: &'a Config,
    /// Handed down to the first process, from 3 on.
    pub descriptors: u32,
}

impl Input<'_> {
    pub(super) fn dir(&self) -> &Path {
        &self.config.dir
    }

    /// The label of the first process.
    pub(super) fn label(&self) -> (&'static str, &str) {
        (LAB_VARIABLE, &self.config.lab_id)
    }

    /// The directory of the runtime's state.
    pub(super) fn state(&self) -> PathBuf {
        self.config.dir.join(STATE)
    }
}

/// A command that starts the container and then ends.
pub(in crate::nodes::container) struct Launch {
    pub program: PathBuf,
    /// Executed in the place of the program.
    pub file: Option<Arc<File>>,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
}

impl Launch {
    pub(super) fn new(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            file: None,
            arguments,
            environment: Vec::new(),
        }
    }

    /// A program that stays, started by a line of shell.
    pub(super) fn in_background(line: &str, program: &str, arguments: Vec<OsString>) -> Self {
        let own = ["-c", line, "sh", program].map(OsString::from);
        Self::new("sh", own.into_iter().chain(arguments).collect())
    }
}

/// Limits that some runtimes would replace by values of their own.
pub(super) fn inherited_limits() -> [(&'static str, Rlimit); 2] {
    [
        ("nofile", getrlimit(Resource::Nofile)),
        ("nproc", getrlimit(Resource::Nproc)),
    ]
}
