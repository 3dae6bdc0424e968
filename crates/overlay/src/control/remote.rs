//! Commands from other hosts: TCP under mutual TLS, and never without.
//!
//! Whoever has a certificate of the authority may do all that a client of the Unix socket may. A
//! stranger costs a thread for as long as a handshake may take, in a room of its own: those who are on
//! this host are never kept out by it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_keepalive;
use rustls::StreamOwned;

use super::conversation::{Room, converse};
use crate::daemon::Daemon;
use crate::tls::{self, Credentials};

/// All that a stranger may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// An address where commands are taken.
#[derive(Debug)]
pub struct Remote {
    listener: TcpListener,
    credentials: Credentials,
}

impl Remote {
    /// Listens at an address; port 0 takes any that is free.
    ///
    /// # Errors
    ///
    /// The address is not this host's, or is taken.
    pub fn listen(address: SocketAddr, credentials: Credentials) -> io::Result<Remote> {
        let listener = TcpListener::bind(address)?;
        Ok(Remote {
            listener,
            credentials,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The socket fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Converses about a daemon, for ever.
    ///
    /// # Errors
    ///
    /// The socket fails.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> io::Result<()> {
        let room = Room::default();
        loop {
            let (stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                // It hung up before its turn; the socket is as good as it was (accept(2)).
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            // Who finds no room hears nothing: TLS begins with its own words.
            let Some(place) = room.enter() else { continue };
            let (daemon, credentials) = (Arc::clone(daemon), self.credentials.clone());
            place.spawn(move || welcome(stream, &credentials, daemon))?;
        }
    }
}

fn welcome(
    socket: TcpStream,
    credentials: &Credentials,
    daemon: Arc<Mutex<Daemon>>,
) -> io::Result<()> {
    let mut tls = credentials.accept()?;
    tls::shake(&mut tls, &socket, PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(None)?;
    // A host that has gone without a word does not hold its place for ever.
    set_socket_keepalive(&socket, true)?;
    converse(StreamOwned::new(tls, socket), daemon)
}
