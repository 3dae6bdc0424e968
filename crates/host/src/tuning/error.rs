use std::io;
use std::path::{Path, PathBuf};

use super::owner::USER;
use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another latlab is tuning this machine (waited {waited} s)")]
    Locked { waited: u64 },
    #[error("{message}")]
    Impossible { message: String, hint: String },
    /// Another owner wants another value of the same item, or the same owner wanted it before.
    #[error("knob `{knob}`: {item} is `{first}` for {owners}, and `{second}` is wanted of it now")]
    Conflict {
        knob: String,
        item: String,
        first: String,
        owners: String,
        second: String,
    },
    #[error("knob `{knob}`: {item} cannot be written: {source}")]
    ReadOnly {
        knob: String,
        item: String,
        source: io::Error,
    },
    #[error("{} is not a journal of tuning: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error(transparent)]
    Sys(sys::Error),
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let failed = sys::Error::of(action, path.display());
        |source: io::Error| Error::Sys(failed(source))
    }

    pub(super) fn impossible((message, hint): (String, String)) -> Error {
        Error::Impossible { message, hint }
    }

    pub fn hint(&self) -> String {
        match self {
            Error::Locked { .. } => "try again when the other latlab is done".into(),
            Error::Impossible { hint, .. } => hint.clone(),
            Error::Conflict { owners, .. } if owners == USER => {
                "run `latlab tune revert` first, or leave this knob out (`--without`)".into()
            }
            Error::Conflict { owners, .. } => {
                format!("want the same, leave this knob out (`--without`), or end {owners} first")
            }
            Error::ReadOnly { source, .. } => match source.raw_os_error() {
                Some(libc::EROFS) => {
                    "it is mounted read-only, as in a container: tune the host itself".into()
                }
                _ => "run as root on the host itself, or leave this knob out (`--without`)".into(),
            },
            Error::Damaged { .. } => {
                "it holds the values from before tuning: restore them by hand, then remove it"
                    .into()
            }
            Error::Sys(_) => {
                "nothing else was changed; make the directory writable, and try again".into()
            }
        }
    }
}
