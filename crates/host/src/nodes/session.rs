//! A command running inside a node, the same for every kind: pipes, a signal, an exit.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

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
    /// A program with its arguments.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    Signal(i32),
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

/// A failure of the way into the node, as opposed to a failure of the command.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Why a command never ran, although the node is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    /// The node has no such program.
    Missing,
    /// It has, but it cannot be executed.
    Forbidden,
    /// The directory to start it in is not there.
    NoDirectory,
}

impl NotStarted {
    /// What a shell returns for it.
    pub fn shell_code(self) -> u8 {
        match self {
            NotStarted::Missing => 127,
            NotStarted::Forbidden | NotStarted::NoDirectory => 126,
        }
    }
}

/// Whether an error of [`crate::lab::Lab::start`], or of a session's [`Session::wait`], says that the
/// command itself could not be run. Each kind of node finds that out in its own way.
pub fn not_started(error: &(dyn std::error::Error + 'static)) -> Option<NotStarted> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(reason) = of_one(error) {
            return Some(reason);
        }
        next = error.source();
    }
    None
}

fn of_one(error: &(dyn std::error::Error + 'static)) -> Option<NotStarted> {
    use super::{container, vm};
    let of_errno = |errno| match errno {
        libc::ENOENT => Some(NotStarted::Missing),
        libc::EACCES | libc::ENOEXEC | libc::EISDIR => Some(NotStarted::Forbidden),
        _ => None,
    };
    if let Some(error) = error.downcast_ref::<crate::sys::Error>() {
        let errno = error.source.raw_os_error();
        return match error.action {
            // Searching `PATH` gives no number of the kernel's.
            "execute" if error.is_not_found() => Some(NotStarted::Missing),
            "execute" => errno.and_then(of_errno),
            "enter directory" => Some(NotStarted::NoDirectory),
            _ => None,
        };
    }
    match error.downcast_ref() {
        Some(container::Error::Command { .. }) => return Some(NotStarted::Missing),
        // Transparent, so the chain of causes leaves it out.
        Some(container::Error::Sys(error)) => return of_one(error),
        _ => {}
    }
    match error.downcast_ref()? {
        // The agent's words, because an error number does not tell what was not found.
        vm::channel::Error::Refused { message, .. } if message.starts_with("enter directory ") => {
            Some(NotStarted::NoDirectory)
        }
        vm::channel::Error::Refused { errno, .. } => of_errno(i32::try_from(*errno).ok()?),
        _ => None,
    }
}

/// Sends signals to a running command; usable from another thread than the one that waits.
pub type Signaller = Box<dyn Fn(i32) -> Result<(), Error> + Send + Sync>;

/// A command running inside a node.
pub trait Session: Send {
    /// Its standard input; dropping it is end of file. `None` the second time.
    fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>>;
    /// Its standard output. `None` the second time.
    fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>>;
    /// Its standard error. `None` the second time.
    fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>>;
    /// A way to signal it.
    fn signaller(&self) -> Signaller;
    /// Waits until it ends.
    ///
    /// # Errors
    /// When the node went away before the command ended.
    fn wait(&mut self) -> Result<Exit, Error>;
    /// Waits until it ends, but no longer than this; `None` then.
    ///
    /// # Errors
    /// As [`Session::wait`].
    fn wait_for(&mut self, timeout: Duration) -> Result<Option<Exit>, Error>;
}
