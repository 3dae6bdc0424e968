//! The thread that opens a connection, and another when it has ended, and sends what a dispatcher had
//! to leave.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::Stream;
use super::{Role, Shared};
use crate::tls;

/// How long the other side may take to answer, and for its part of a handshake.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between attempts: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Handshakes with strangers at once; more are refused.
const GUESTS: usize = 4;

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
            guests: Arc::default(),
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
    guests: Arc<AtomicUsize>,
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
            if opened.is_ok() {
                pause = BACK_OFF.0;
                while !self.stop.load(Relaxed) && self.attend(None, None) {}
            } else {
                self.attend(None, Some(pause));
                pause = (pause * 2).min(BACK_OFF.1);
            }
        }
    }

    fn listen(&self, listener: &TcpListener) {
        while !self.stop.load(Relaxed) {
            self.attend(Some(listener), None);
            if let Ok((socket, from)) = listener.accept() {
                self.welcome(socket, from);
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
    fn welcome(&self, socket: TcpStream, from: SocketAddr) {
        let shared = self.shared.clone();
        if shared.spec.tls.is_none() && !may_replace(&shared, from.ip()) {
            return;
        }
        if self.guests.fetch_add(1, Relaxed) >= GUESTS {
            self.guests.fetch_sub(1, Relaxed);
            return;
        }
        let (guests, stop) = (self.guests.clone(), self.stop.clone());
        let work = move || {
            let accepted = accept(&shared, socket);
            if let (Ok(stream), false) = (accepted, stop.load(Relaxed)) {
                // Without a place in the set it would never be read; the other side tries again.
                shared.install(stream).ok();
                shared.wake();
            }
            guests.fetch_sub(1, Relaxed);
        };
        let started = std::thread::Builder::new()
            .name("tcp-guest".into())
            .spawn(work);
        if started.is_err() {
            self.guests.fetch_sub(1, Relaxed);
        }
    }
}

fn may_replace(shared: &Shared, newcomer: IpAddr) -> bool {
    let current = shared.lock();
    let peer = current.as_ref().map(|stream| stream.socket().peer_addr());
    match peer {
        Some(Ok(peer)) => peer.ip() == newcomer,
        // None, or one that has ended and was not yet noticed.
        _ => true,
    }
}

fn open(shared: &Shared, to: SocketAddr) -> io::Result<Stream> {
    let socket = TcpStream::connect_timeout(&to, PATIENCE)?;
    let Some(credentials) = &shared.spec.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.connect(to.ip())?;
    tls::shake(&mut tls, &socket, PATIENCE)?;
    Stream::new(socket, Some(tls.into()))
}

fn accept(shared: &Shared, socket: TcpStream) -> io::Result<Stream> {
    socket.set_nonblocking(false)?;
    let Some(credentials) = &shared.spec.tls else {
        return Stream::new(socket, None);
    };
    let mut tls = credentials.accept()?;
    tls::shake(&mut tls, &socket, PATIENCE)?;
    Stream::new(socket, Some(tls.into()))
}
