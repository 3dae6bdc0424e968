//! The thread that opens connections, replaces those that end, and sends what a dispatcher had to leave.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use latlab_model::overlay::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::config::Role;
use super::shared::Shared;
use super::stream::Stream;
use crate::strangers::{StrangerSlot, Strangers, pause_after};
use crate::tls;

/// Timeout of a connection attempt, and of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts: first and maximum.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A connection that ends sooner was refused: in TLS 1.3 a client learns that after its handshake (RFC 8446, section 2).
const MIN_LIFE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Reconnector {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

impl Reconnector {
    pub fn start(shared: Arc<Shared>, listener: Option<TcpListener>) -> io::Result<Reconnector> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            shared: shared.clone(),
            stop: stop.clone(),
            strangers: Strangers::default(),
        };
        let name = format!("tcp-{}", shared.config.id.0);
        // Never joined: a connection attempt may take until its timeout.
        std::thread::Builder::new()
            .name(name)
            .spawn(move || match listener {
                Some(listener) => work.listen(&listener),
                None => work.connect(),
            })?;
        Ok(Reconnector { shared, stop })
    }
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.shared.wake_reconnector();
        *self.shared.lock() = None;
    }
}

struct Work {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    strangers: Strangers,
}

impl Work {
    fn connect(&self) {
        let Role::Connect(to) = self.shared.config.role else {
            return;
        };
        let mut pause = BACK_OFF.0;
        while !self.stop.load(Relaxed) {
            let opened = open(&self.shared, to).and_then(|stream| {
                if self.stop.load(Relaxed) {
                    return Ok(());
                }
                self.shared.install(stream)
            });
            let begun = Instant::now();
            if opened.is_ok() {
                while !self.stop.load(Relaxed) && self.attend(None, None) {}
            }
            if opened.is_ok() && begun.elapsed() >= MIN_LIFE {
                pause = BACK_OFF.0;
            } else {
                self.attend(None, Some(pause));
                pause = (pause * 2).min(BACK_OFF.1);
            }
        }
    }

    fn listen(&self, listener: &TcpListener) {
        while !self.stop.load(Relaxed) {
            self.attend(Some(listener), None);
            let welcomed = listener
                .accept()
                .and_then(|(socket, from)| self.welcome(socket, from.ip()));
            match welcomed {
                // The listener stays readable, so waiting for it would not pause.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.attend(None, Some(pause_after(&error)));
                }
                _ => {}
            }
        }
    }

    /// Waits for work and sends unsent bytes; returns whether there is a connection.
    fn attend(&self, listener: Option<&TcpListener>, pause: Option<Duration>) -> bool {
        let (is_connected, blocked) = match &*self.shared.lock() {
            Some(stream) => (true, stream.has_unsent().then(|| stream.socket().clone())),
            None => (false, None),
        };
        if !is_connected && listener.is_none() && pause.is_none() {
            return false;
        }
        let mut wanted = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        if let Some(socket) = &blocked {
            wanted.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT));
        }
        if let Some(listener) = listener {
            wanted.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        poll(&mut wanted, timeout.as_ref()).ok();
        let mut number = [0; 8];
        rustix::io::read(&self.shared.wake, &mut number).ok();
        let mut current = self.shared.lock();
        if let Some(stream) = current.as_mut() {
            if stream.flush().is_err() {
                *current = None;
            }
        }
        current.is_some()
    }

    /// Installs a connection after its handshake, on a dedicated thread: a silent stranger delays no other peer.
    fn welcome(&self, socket: TcpStream, from: IpAddr) -> io::Result<()> {
        let shared = self.shared.clone();
        if shared.config.tls.is_none() && !may_come(&shared, from.to_canonical()) {
            return Ok(());
        }
        let slot = self.strangers.enter(&socket, from)?;
        let stop = self.stop.clone();
        let work = move || {
            let accepted = accept(&shared, socket, slot);
            if let (Ok(stream), false) = (accepted, stop.load(Relaxed)) {
                // A connection that does not fit into the epoll set is dropped, and the peer tries again.
                shared.install(stream).ok();
                shared.wake_reconnector();
            }
        };
        std::thread::Builder::new()
            .name("tcp-guest".into())
            .spawn(work)
            .map(drop)
    }
}

/// Whether a host may open a connection without a certificate.
fn may_come(shared: &Shared, newcomer: IpAddr) -> bool {
    if let Role::Listen(_, Peer::Address(peer)) = shared.config.role {
        return peer.to_canonical() == newcomer;
    }
    let current = shared.lock();
    let peer = current.as_ref().map(|stream| stream.socket().peer_addr());
    match peer {
        Some(Ok(peer)) => peer.ip().to_canonical() == newcomer,
        // No connection, or one that has ended unnoticed.
        _ => true,
    }
}

fn open(shared: &Shared, to: SocketAddr) -> io::Result<Stream> {
    let socket = TcpStream::connect_timeout(&to, HANDSHAKE_TIMEOUT)?;
    tls::enable_keepalive(&socket)?;
    let Some(credentials) = &shared.config.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.connect(to.ip())?;
    tls::handshake(&mut tls, &socket, HANDSHAKE_TIMEOUT)?;
    Stream::new(socket, Some(tls.into()))
}

fn accept(shared: &Shared, socket: TcpStream, slot: StrangerSlot) -> io::Result<Stream> {
    socket.set_nonblocking(false)?;
    tls::enable_keepalive(&socket)?;
    let Some(credentials) = &shared.config.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.accept()?;
    tls::handshake(&mut tls, &socket, HANDSHAKE_TIMEOUT)?;
    drop(slot);
    Stream::new(socket, Some(tls.into()))
}
