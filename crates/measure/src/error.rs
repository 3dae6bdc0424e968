//! Why a trial gave no result.

use crate::endpoint;
use crate::measured::Kept;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    #[error("node `{node}`: cannot compare its clock with the host's: {source}")]
    Clock {
        node: String,
        source: Box<latlab_host::lab::Error>,
    },
    #[error("node `{node}`: hardware timestamps of `{interface}`: {reason}")]
    Card {
        node: String,
        interface: String,
        reason: String,
    },
    #[error("node `{node}`: iperf3: {message}")]
    Iperf { node: String, message: String },
    #[error("node `{node}`: `{command}` {what}; {tail}")]
    Program {
        node: String,
        command: String,
        what: String,
        /// The end of what it wrote.
        tail: String,
    },
    #[error(
        "node `{node}`: `{directory}` is in memory ({kind}), so that memory would be measured: \
         name a directory on a disk, for example one of the node's `storage`"
    )]
    InMemory {
        node: String,
        directory: String,
        kind: String,
    },
    /// The outputs of its programs are kept all the same.
    #[error("{source}")]
    Workload { source: Box<Error>, kept: Kept },
    /// A reader of studies makes no such measurement.
    #[error("measurement `{0}` has neither ends nor nodes")]
    Nothing(String),
    #[error("measurement `{0}` needs its nodes on one machine")]
    OneMachine(String),
    #[error("no link takes `{from}` to `{to}`")]
    Unreachable { from: String, to: String },
    #[error("cannot make the noise `{noise}`")]
    Noise {
        noise: String,
        source: std::io::Error,
    },
    #[error("node `{node}`: {tool} is not there; install {package} in its image")]
    MissingTool {
        node: String,
        tool: &'static str,
        package: &'static str,
    },
    /// A device under test did not come up, or did not restore what it changed.
    #[error("node `{node}`: the device under test: {reason}")]
    Device { node: String, reason: String },
    #[error("none of {sent} packets came through `{device}`; {interfaces}")]
    NothingThrough {
        device: String,
        /// Packets that the tap before the device saw.
        sent: u64,
        /// Interface counters of the device's node.
        interfaces: String,
    },
    #[error(
        "node `{node}`: {packets} packets more arrived than there was room for: many of them came twice"
    )]
    NoRoom { node: String, packets: u64 },
    #[error("node `{node}`: {source}")]
    Tap {
        node: String,
        source: latlab_trace::Error,
    },
    #[error("node `{node}`: cannot enter its network namespace: {source}")]
    Namespace {
        node: String,
        source: latlab_host::sys::Error,
    },
    #[error(
        "{packets} packets need {} MiB for their times, and {} MiB are free, of which half may be \
         taken: send fewer, by a lower rate or for a shorter time", needed >> 20, available >> 20
    )]
    Memory {
        packets: u64,
        needed: u64,
        available: u64,
    },
    #[error(transparent)]
    Lab(Box<latlab_host::lab::Error>),
}

impl Error {
    pub(crate) fn unreachable(from: &str, to: &str) -> Error {
        Error::Unreachable {
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    /// The outputs of a failed workload's programs.
    pub(crate) fn take_kept(&mut self) -> Kept {
        match self {
            Error::Workload { kept, .. } => std::mem::take(kept),
            _ => Kept::default(),
        }
    }
}

impl From<latlab_host::lab::Error> for Error {
    fn from(error: latlab_host::lab::Error) -> Error {
        Error::Lab(Box::new(error))
    }
}

pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = cause.to_string();
        // Transparent errors repeat their cause.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        source = cause.source();
    }
    text
}
