//! Errors between the host and a guest's agent.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use latlab_wire::channel::VERSION;

use super::super::paths::PORTS;

/// The most that [`Channel::run`](super::Channel::run) collects of each stream: a guest must not fill the host's memory.
pub(super) const MAX_OUTPUT: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot reach the guest: all {PORTS} channel ports are in use (waited {} s)",
        waited.as_secs()
    )]
    Busy { waited: Duration },
    #[error("cannot {action} {}: {source}", path.display())]
    Socket {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Lock(#[from] crate::sys::Error),
    #[error("the guest's agent did not answer {what} within {:.1} s", after.as_secs_f64())]
    Silent { what: &'static str, after: Duration },
    #[error("the channel to the guest is closed: {reason}")]
    Closed { reason: String },
    #[error("the guest is unusable: {message}")]
    Unusable { message: String },
    #[error(
        "the guest's agent speaks protocol {agent}, this latlab {VERSION}; deploy the lab again"
    )]
    Version { agent: u16 },
    #[error("in the guest: {message}")]
    Refused {
        /// Error number in the guest, or 0.
        errno: u32,
        message: String,
    },
    #[error("a process in the guest wrote more than {} MiB and was killed", MAX_OUTPUT >> 20)]
    TooMuch,
    #[error(transparent)]
    TooLong(#[from] latlab_wire::channel::TooLong),
}
