//! Errors of streams, each with a hint.

use std::io;
use std::path::PathBuf;

use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("latlab-streams is not at {}", .0.display())]
    NoProgram(PathBuf),
    #[error("streams: {}", .log.first().map_or("the supervisor ended", String::as_str))]
    Failed { log: Vec<String> },
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("streams: {0}")]
    Refused(String),
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Error::NoProgram(_) => {
                "build it with `cargo build`, or name its place in LATLAB_STREAMS".into()
            }
            Error::Failed { .. } => "remove `streams` from the link".into(),
            Error::Io { .. } => {
                "did its supervisor end? Connections are plain then, and a lab deployed anew has another one".into()
            }
            Error::Refused(_) => "`latlab inspect LAB` lists its nodes and links".into(),
            Error::Sys(_) => "latlab needs root to deploy labs".into(),
        }
    }
}
