//! Opening a TCP link.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use super::config::{Role, TcpConfig};
use super::receiver::Receiver;
use super::reconnector::Reconnector;
use super::shared::Shared;
use super::transmitter::Transmitter;

/// Opens a link. The connection follows when the peer is there, and ends when both halves are dropped.
pub fn open(config: TcpConfig) -> io::Result<(Receiver, Transmitter)> {
    let listener = match &config.role {
        Role::Connect(_) => None,
        Role::Listen(at, _) => {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Some(listener)
        }
    };
    let shared = Arc::new(Shared::new(config)?);
    let reconnector = Arc::new(Reconnector::start(shared.clone(), listener)?);
    let receiver = Receiver::new(shared.clone(), reconnector.clone());
    Ok((receiver, Transmitter::new(shared, reconnector)))
}
