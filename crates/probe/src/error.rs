//! Errors of a probe, with their exit codes.
//!
//! Two of them, as everywhere in latlab: 2 says that the input or the machine is at fault and
//! nothing was measured, 1 that a measurement began and broke.

use std::io;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("{action}: {source}")]
    Machine {
        /// The action that failed, and its object.
        action: String,
        source: io::Error,
    },
    /// The records would take more memory than allowed.
    #[error(
        "{records} records need {needed_bytes} bytes of memory, {allowed_bytes} are allowed; \
         ask for fewer, or give --max-memory {needed_bytes}"
    )]
    Memory {
        records: u64,
        needed_bytes: u64,
        /// Memory that `--max-memory` allows.
        allowed_bytes: u64,
    },
    /// The peer or the path to it failed during the run.
    #[error("{0}")]
    Peer(String),
    #[error("write the results: {0}")]
    Output(#[source] io::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal of the machine, from either of the two error types it comes in.
    pub fn machine(action: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Machine {
            action: action.into(),
            source: source.into(),
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) | Error::Machine { .. } | Error::Memory { .. } => 2,
            Error::Peer(_) | Error::Output(_) => 1,
        }
    }
}
