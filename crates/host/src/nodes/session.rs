//! A command running inside a node, the same for every kind: pipes, a signal, an exit.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

pub use super::error::{Error, NotStarted};
pub use crate::sys::process::Exit;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Variables over the node's own environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; the node's default otherwise.
    pub cwd: Option<String>,
}

impl Command {
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Command {
        Command {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Command::default()
        }
    }

    /// A line for `/bin/sh -c`.
    pub fn shell(line: &str) -> Command {
        Command::new(["/bin/sh", "-c", line])
    }
}

/// The fate of a node that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    GoesOn,
    /// The node ends, and no moment passes between its snapshot and its end.
    Ends,
}

/// A command that no latlab waits for; it ends with its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// Its number as the node sees it.
    pub pid: u32,
    /// The file on the host that takes its standard output and standard error.
    pub output: PathBuf,
}

impl Exit {
    /// True for status 0.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }

    /// As a shell reports it: the status, or 128 plus the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// Sends signals to a running command and to what it started, unless that left its process group; usable from another
/// thread than the one that waits.
pub type Signaller = Box<dyn Fn(i32) -> Result<(), Error> + Send + Sync>;

pub trait Session: Send {
    /// Its standard input; dropping it is end of file. `None` the second time.
    fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>>;
    /// Its standard output. `None` the second time.
    fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>>;
    /// Its standard error. `None` the second time.
    fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>>;
    fn signaller(&self) -> Signaller;
    /// Waits until it ends. Fails when the node went away before the command ended.
    fn wait(&mut self) -> Result<Exit, Error> {
        /// A wait without an end, in pieces.
        const LONG: Duration = Duration::from_secs(3600);
        loop {
            if let Some(exit) = self.wait_for(LONG)? {
                return Ok(exit);
            }
        }
    }
    /// Waits until it ends, but no longer than this; `None` then.
    fn wait_for(&mut self, timeout: Duration) -> Result<Option<Exit>, Error>;
}
