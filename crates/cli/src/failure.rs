//! What a person is told when a verb fails: one line with the object and the action, then one line
//! saying what to do.

use std::fmt;
use std::process::ExitCode;

/// A failed verb.
#[derive(Debug)]
pub struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    code: u8,
}

/// What every verb returns.
pub type Outcome = Result<ExitCode, Failure>;

/// The input or the machine is at fault.
pub const AT_FAULT: u8 = 2;

/// Something that was measured failed; the input and the machine are well.
pub const MEASURED_FAILED: u8 = 1;

/// The person ended it: what a shell returns for SIGINT.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    /// A failure in words.
    pub fn new(message: impl fmt::Display, hint: impl Into<String>) -> Failure {
        Failure {
            error: anyhow::anyhow!("{message}"),
            hint: Some(hint.into()),
            code: AT_FAULT,
        }
    }

    /// An error of a library with what to do about it.
    pub fn of(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            hint: Some(hint.into()),
            code: AT_FAULT,
        }
    }

    /// Says one more thing to do.
    pub fn and_hint(mut self, more: impl fmt::Display) -> Failure {
        self.hint = Some(match self.hint {
            Some(hint) => format!("{hint}; {more}"),
            None => more.to_string(),
        });
        self
    }

    /// What was made is still there: says what to do with it, instead of advice to keep it.
    pub fn kept(mut self, how: &str) -> Failure {
        let own = self.hint.filter(|hint| !hint.contains("--keep"));
        self.hint = Some(own.map_or(how.to_string(), |own| format!("{own}; {how}")));
        self
    }

    /// Another exit code than [`AT_FAULT`], where there is one.
    pub fn with_code(mut self, code: Option<u8>) -> Failure {
        self.code = code.unwrap_or(self.code);
        self
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// True when the reader of our output went away.
    pub fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|e| {
            let io = e.downcast_ref::<std::io::Error>();
            io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "latlab: {}", one_line(&self.error))?;
        match &self.hint {
            Some(hint) => writeln!(f, "  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The error and its causes, without saying a cause twice.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure {
            error: error.into(),
            hint: None,
            code: AT_FAULT,
        }
    }
}

/// Adds the line that says what to do.
pub trait Hint<T> {
    /// `hint` for an error of any kind.
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|e| Failure::of(e, hint))
    }
}

/// Refuses to go on without root, saying why this verb needs it.
pub fn need_root(verb: &str, why: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = format!("`latlab {verb}` needs root: {why}");
    let hint = format!("run `sudo latlab {verb} …`; validate, graph, report, compare need no root");
    Err(Failure::new(message, hint))
}
