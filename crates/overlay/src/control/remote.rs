//! Commands from other hosts, over TCP under mutual TLS only.
//!
//! A host with an accepted certificate has all rights of a client of the Unix socket. A stranger costs a thread for the
//! duration of a handshake, in slots of its own ([`crate::strangers`]), so it cannot block authorized clients.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::StreamOwned;

use super::conversation::{Clients, FULL, converse, spawn};
use crate::daemon::Daemon;
use crate::strangers::{ACCEPT_PAUSE, StrangerSlot, Strangers, pause_after};
use crate::tls::{self, Credentials};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Remote {
    listener: TcpListener,
    credentials: Credentials,
}

impl Remote {
    /// Listens at an address (port 0: any free one) for hosts that these credentials accept
    /// ([`Credentials::accepting`]).
    pub fn listen(address: SocketAddr, credentials: Credentials) -> io::Result<Remote> {
        let listener = TcpListener::bind(address)?;
        Ok(Remote {
            listener,
            credentials,
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients for ever. Without descriptors or threads a client is refused, and later ones are served.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> ! {
        let (clients, strangers) = (Clients::default(), Strangers::default());
        loop {
            let entered = self.listener.accept().and_then(|(socket, from)| {
                let slot = strangers.enter(&socket, from.ip())?;
                Ok((socket, slot))
            });
            let (socket, slot) = match entered {
                Ok(entered) => entered,
                Err(error) => {
                    std::thread::sleep(pause_after(&error));
                    continue;
                }
            };
            let (clients, credentials, daemon) = (
                clients.clone(),
                self.credentials.clone(),
                Arc::clone(daemon),
            );
            if spawn(move || welcome(socket, slot, &credentials, &clients, daemon)).is_err() {
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn welcome(
    socket: TcpStream,
    stranger: StrangerSlot,
    credentials: &Credentials,
    clients: &Clients,
    daemon: Arc<Mutex<Daemon>>,
) -> io::Result<()> {
    let mut tls = credentials.accept()?;
    tls::handshake(&mut tls, &socket, HANDSHAKE_TIMEOUT)?;
    drop(stranger);
    socket.set_nodelay(true)?;
    socket.set_read_timeout(None)?;
    // A host that vanished does not hold its slot for ever.
    tls::enable_keepalive(&socket)?;
    let mut stream = StreamOwned::new(tls, socket);
    match clients.enter() {
        Some(_slot) => converse(stream, daemon),
        None => stream.write_all(FULL),
    }
}
