//! Options of a deployment, and its steps for a display.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

#[derive(Default)]
pub struct Options<'a> {
    pub keep: bool,
    /// Nodes started at once; otherwise one a CPU with VMs, four without.
    pub workers: Option<usize>,
    /// The lab's file, for `inspect`; images and binds are relative to its directory.
    pub file: Option<PathBuf>,
    /// Ends the deployment when it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// Told about every step, from any thread.
    pub progress: Option<&'a (dyn Fn(&Step<'_>) + Sync)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    Tuning(&'a str),
    Network,
    /// A node is ready: its name, how many are.
    Ready(&'a str, usize),
    Preparing(&'a str),
    Commands(&'a str),
}

impl Step<'_> {
    /// Nodes ready by now, if this step tells.
    pub fn nodes_ready(&self) -> usize {
        match self {
            Step::Ready(_, count) => *count,
            _ => 0,
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Tuning(profile) => write!(f, "tuning the machine: {profile}"),
            Step::Network => f.write_str("making namespaces and links"),
            Step::Ready(node, _) => write!(f, "{node} is ready"),
            Step::Preparing(what) => f.write_str(what),
            Step::Commands(node) => write!(f, "running the commands of {node}"),
        }
    }
}
