//! Reasons for which a server does not start, or ends.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::index::IndexError;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot serve {path}: it is no directory that can be read")]
    Runs { path: PathBuf, source: io::Error },
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot draw a token: the kernel gives no random numbers")]
    Token(#[source] io::Error),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("cannot serve")]
    Serve(#[source] io::Error),
}
