//! Commands from other hosts: TCP under mutual TLS, and never without.
//!
//! A host whose certificate names one of those that may control does all that a client of the Unix socket may. A
//! stranger costs a thread for as long as a handshake may take, at places of its own ([`crate::strangers`]):
//! those who may control, here or from there, are not kept out by it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::StreamOwned;

use super::conversation::{FULL, Room, converse, spawn};
use crate::daemon::Daemon;
use crate::strangers::{ACCEPT_PAUSE, Place, Strangers, pause_after};
use crate::tls::{self, Credentials};

/// All that a stranger may take to say who it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// An address where commands are taken.
#[derive(Debug)]
pub struct Remote {
    listener: TcpListener,
    credentials: Credentials,
}

impl Remote {
    /// Listens at an address; port 0 takes any that is free. Served is whoever these credentials accept
    /// ([`Credentials::accepting`]).
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

    /// Converses about a daemon, for ever. Who finds no descriptor or thread at the moment is sent away.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> ! {
        let (room, strangers) = (Room::default(), Strangers::default());
        loop {
            let entered = self.listener.accept().and_then(|(socket, from)| {
                let place = strangers.enter(&socket, from.ip())?;
                Ok((socket, place))
            });
            let (socket, place) = match entered {
                Ok(entered) => entered,
                Err(error) => {
                    std::thread::sleep(pause_after(&error));
                    continue;
                }
            };
            let (room, credentials, daemon) =
                (room.clone(), self.credentials.clone(), Arc::clone(daemon));
            if spawn(move || welcome(socket, place, &credentials, &room, daemon)).is_err() {
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn welcome(
    socket: TcpStream,
    stranger: Place,
    credentials: &Credentials,
    room: &Room,
    daemon: Arc<Mutex<Daemon>>,
) -> io::Result<()> {
    let mut tls = credentials.accept()?;
    tls::shake(&mut tls, &socket, HANDSHAKE_TIMEOUT)?;
    drop(stranger);
    socket.set_nodelay(true)?;
    socket.set_read_timeout(None)?;
    // A host that has gone without a word does not hold its place for ever.
    tls::watch_over(&socket)?;
    let mut stream = StreamOwned::new(tls, socket);
    match room.enter() {
        Some(_place) => converse(stream, daemon),
        None => stream.write_all(FULL),
    }
}
