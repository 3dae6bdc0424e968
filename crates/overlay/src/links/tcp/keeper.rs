//! The thread that opens a connection, and another when it has ended, and sends what a dispatcher had
//! to leave.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_model::overlay::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::Stream;
use super::{Role, Shared};
use crate::strangers::{Place, Strangers, pause_after};
use crate::tls;

/// How long the other side may take to answer, and for its part of a handshake.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between attempts: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A connection that ends sooner was refused: in TLS 1.3 a client hears that after its handshake (RFC 8446, section 2).
const MIN_LIFE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(shared: Arc<Shared>, listener: Option<TcpListener>) -> io::Result<Keeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            shared: shared.clone(),
            stop: stop.clone(),
            strangers: Strangers::default(),
        };
        let name = format!("tcp-{}", shared.spec.id.0);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || match listener {
                Some(listener) => work.listen(&listener),
                None => work.connect(),
            })?;
        Ok(Keeper {
            shared,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A connection that is being opened ends with its patience; nobody waits for that.
            drop(thread);
        }
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
        let Role::Connect(to) = self.shared.spec.role else {
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
                // The listener stays readable meanwhile, so it is not waited for.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.attend(None, Some(pause_after(&error)));
                }
                _ => {}
            }
        }
    }

    /// Waits until there is something to do, and sends what is left. Whether there is a connection.
    fn attend(&self, listener: Option<&TcpListener>, pause: Option<Duration>) -> bool {
        let (there, blocked) = match &*self.shared.lock() {
            Some(stream) => (true, stream.has_left().then(|| stream.socket().clone())),
            None => (false, None),
        };
        if !there && listener.is_none() && pause.is_none() {
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

    /// Takes a connection into use when its handshake is over, on a thread of its own: a stranger who
    /// says nothing keeps nobody waiting.
    fn welcome(&self, socket: TcpStream, from: IpAddr) -> io::Result<()> {
        let shared = self.shared.clone();
        if shared.spec.tls.is_none() && !may_come(&shared, from.to_canonical()) {
            return Ok(());
        }
        let place = self.strangers.enter(&socket, from)?;
        let stop = self.stop.clone();
        let work = move || {
            let accepted = accept(&shared, socket, place);
            if let (Ok(stream), false) = (accepted, stop.load(Relaxed)) {
                // Without a place in the set it would never be read; the other side tries again.
                shared.install(stream).ok();
                shared.wake();
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
    if let Role::Listen(_, Peer::Address(peer)) = shared.spec.role {
        return peer.to_canonical() == newcomer;
    }
    let current = shared.lock();
    let peer = current.as_ref().map(|stream| stream.socket().peer_addr());
    match peer {
        Some(Ok(peer)) => peer.ip().to_canonical() == newcomer,
        // None, or one that has ended and was not yet noticed.
        _ => true,
    }
}

fn open(shared: &Shared, to: SocketAddr) -> io::Result<Stream> {
    let socket = TcpStream::connect_timeout(&to, PATIENCE)?;
    tls::watch_over(&socket)?;
    let Some(credentials) = &shared.spec.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.connect(to.ip())?;
    tls::shake(&mut tls, &socket, PATIENCE)?;
    Stream::new(socket, Some(tls.into()))
}

fn accept(shared: &Shared, socket: TcpStream, place: Place) -> io::Result<Stream> {
    socket.set_nonblocking(false)?;
    tls::watch_over(&socket)?;
    let Some(credentials) = &shared.spec.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.accept()?;
    tls::shake(&mut tls, &socket, PATIENCE)?;
    drop(place);
    Stream::new(socket, Some(tls.into()))
}
