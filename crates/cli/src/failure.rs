//! The report of a failed verb: one line with object and action, then one line with a hint.

use std::fmt;
use std::process::ExitCode;

use latlab_host::lab;
use latlab_measure::error::one_line;
use latlab_model::diagnostic::{Diagnostics, Mark};

use crate::format::counted;

#[derive(Debug)]
pub struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    code: u8,
    /// The mistakes of documents, if the error is about those: they are told above it.
    mistakes: Option<Mistakes>,
}

/// Mistakes in documents that were read together.
#[derive(Debug)]
pub struct Mistakes {
    pub files: Vec<String>,
    pub all: Diagnostics,
}

impl Mistakes {
    /// The document of a mark.
    pub fn file(&self, at: Mark) -> &str {
        self.files
            .get(usize::from(at.file))
            .unwrap_or(&self.files[0])
    }
}

pub type Outcome = Result<ExitCode, Failure>;

/// The input or the machine is at fault.
pub const AT_FAULT: u8 = 2;

/// A measurement failed or found a difference; input and machine are sound.
pub const MEASURED_FAILED: u8 = 1;

/// The result differs from what it was made of; the input is sound.
pub const DIFFERS: u8 = 1;

/// A lab's deployment failed, and could not be undone: `latlab destroy` removes the rest.
pub const NOT_UNDONE: u8 = 3;

/// Interrupted by the user: a shell's code for SIGINT.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    pub fn new(message: impl fmt::Display, hint: impl Into<String>) -> Failure {
        Failure::of(anyhow::anyhow!("{message}"), hint)
    }

    /// An error with a hint.
    pub fn of(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Failure {
        Failure {
            hint: Some(hint.into()),
            ..Failure::from(error)
        }
    }

    /// Appends to the hint.
    pub fn and_hint(mut self, more: impl fmt::Display) -> Failure {
        self.hint = Some(match self.hint {
            Some(hint) => format!("{hint}; {more}"),
            None => more.to_string(),
        });
        self
    }

    /// Replaces advice to use `--keep` by how to inspect the lab that was kept.
    pub fn kept(mut self, how: &str) -> Failure {
        let own = self.hint.filter(|hint| !hint.contains("--keep"));
        self.hint = Some(own.map_or(how.to_string(), |own| format!("{own}; {how}")));
        self
    }

    /// Sets the exit code, if there is one.
    pub fn with_code(mut self, code: Option<u8>) -> Failure {
        self.code = code.unwrap_or(self.code);
        self
    }

    /// The error in a line, and the hint.
    pub fn lines(&self) -> (String, String) {
        let hint = self.hint.clone().unwrap_or_default();
        (one_line(self.error.as_ref()), hint)
    }

    /// The mistakes that it is about.
    pub fn mistakes(&self) -> Option<&Mistakes> {
        self.mistakes.as_ref()
    }

    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Whether the reader of what is printed is gone. A pipe that broke elsewhere is a part of another error.
    pub fn is_broken_pipe(&self) -> bool {
        let io = self.error.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Mistakes { files, all }) = &self.mistakes {
            let names: Vec<&str> = files.iter().map(String::as_str).collect();
            f.write_str(&all.render_files(&names))?;
        }
        writeln!(f, "latlab: {}", one_line(self.error.as_ref()))?;
        match &self.hint {
            Some(hint) => writeln!(f, "  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure {
            error: error.into(),
            hint: None,
            code: AT_FAULT,
            mistakes: None,
        }
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        let count = counted(mistakes.all.iter().count(), "mistake");
        let error = anyhow::anyhow!("{count} in {}; nothing was changed", mistakes.files[0]);
        Failure {
            mistakes: Some(mistakes),
            ..Failure::from(error)
        }
    }
}

/// An error of labs, or one that they can have.
pub fn explain(error: impl Into<lab::Error>) -> Failure {
    let error = error.into();
    let hint = error.hint();
    let code = matches!(error, lab::Error::Unclean { .. }).then_some(NOT_UNDONE);
    Failure::of(error, hint).with_code(code)
}

/// Makes failures of errors that know their hint.
pub fn hinted<E: Into<anyhow::Error>, H: Into<String>>(
    hint: impl Fn(&E) -> H,
) -> impl Fn(E) -> Failure {
    move |error| {
        let hint = hint(&error);
        Failure::of(error, hint)
    }
}

/// An error of a machine's management controller.
pub fn of_controller(error: latlab_bmc::Error) -> Failure {
    let hint = error.hint();
    Failure::of(error, hint)
}

/// Adds the hint line.
pub trait Hint<T> {
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|e| Failure::of(e, hint))
    }
}

/// The exit code of what was measured or compared.
pub fn measured(is_good: bool) -> ExitCode {
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(MEASURED_FAILED),
    }
}

/// Refuses to run a verb without root, with the reason.
pub fn need_root(verb: &str, why: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = format!("`latlab {verb}` needs root: {why}");
    let hint = format!("run `sudo latlab {verb} …`; validate, graph, report, compare need no root");
    Err(Failure::new(message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_that_is_not_undone_has_a_code_of_its_own() {
        let stays = || lab::Error::Remains {
            lab: "a".into(),
            causes: vec!["busy".into()],
        };
        let unclean = lab::Error::Unclean {
            first: Box::new(lab::Error::Interrupted("a".into())),
            remains: Box::new(stays()),
        };
        assert_eq!(explain(unclean).code(), ExitCode::from(NOT_UNDONE));
        assert_eq!(explain(stays()).code(), ExitCode::from(AT_FAULT));
    }
}
