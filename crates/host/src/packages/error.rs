//! Failures of the archive's tools, and the names of those that people meet.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::sys;

/// How long one tool may take. A kernel's package has some 70 MB; this allows 120 kB/s.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run {tool}: {source}")]
    Tool {
        tool: &'static str,
        source: io::Error,
    },
    #[error("cannot download {package}: the archive cannot be reached ({detail})")]
    Network { package: String, detail: String },
    #[error(
        "cannot download {package}: the archive no longer has the version in the package lists"
    )]
    Outdated { package: String },
    #[error("{command} failed: {detail}")]
    Failed {
        command: String,
        /// Its last words.
        detail: String,
    },
    #[error("{command} did not end within {} s", TIMEOUT.as_secs())]
    Silent { command: String },
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

/// Gives the two failures that people meet their own names.
pub(crate) fn explain(error: Error, package: &str) -> Error {
    let Error::Failed { command, detail } = error else {
        return error;
    };
    let package = package.to_owned();
    let any = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    if any(&["404"]) {
        Error::Outdated { package }
    } else if any(&[
        "Could not resolve",
        "Temporary failure",
        "Could not connect",
        "Failed to fetch",
    ]) {
        Error::Network { package, detail }
    } else {
        Error::Failed { command, detail }
    }
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let failed = sys::Error::of(action, path.display());
    |source: io::Error| Error::Sys(failed(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_people_meet_have_names() {
        let failed = |detail: &str| Error::Failed {
            command: "apt-get".into(),
            detail: detail.into(),
        };
        let explained = |detail: &str| explain(failed(detail), "p");
        assert!(matches!(
            explained("E: Failed to fetch http://x  404  Not Found"),
            Error::Outdated { .. }
        ));
        assert!(matches!(
            explained("E: Failed to fetch http://x  Could not resolve 'x'"),
            Error::Network { .. }
        ));
        assert!(matches!(explained("E: disk full"), Error::Failed { .. }));
    }
}
