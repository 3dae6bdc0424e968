//! The thread that serves the VMM: waits for it or connects to it, serves it, and starts over.
//!
//! One blocking thread per port: a VMM that sends half a message delays only itself.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::device::Device;
use super::messages;
use super::shared::Shared;
use crate::sync::lock;

/// Pause after a failed connection attempt, after a connection that ended, and after an error of accept(2), such as a
/// lack of descriptors.
const RETRY_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Pause after a VMM that made an eventfd block, which stops a dispatcher for up to two ticks of the watchdog.
const BLOCKING_PAUSE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// Pending connections; one VMM is served at a time.
const BACKLOG: i32 = 16;

#[derive(Debug)]
pub enum Rendezvous {
    Listen(UnixListener),
    Connect(PathBuf),
}

impl Rendezvous {
    /// Listens at a path. The socket of a daemon that was killed is replaced, with its mode: it may admit a VMM of
    /// another user. Errors: a process listens there, or another kind of file exists.
    pub fn listen(path: &Path) -> io::Result<Rendezvous> {
        match bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let refused = connect(path).err().map(|e| e.kind());
                if refused != Some(io::ErrorKind::ConnectionRefused) {
                    return Err(error);
                }
                let permissions = std::fs::metadata(path)?.permissions();
                std::fs::remove_file(path)?;
                let socket = bind(path)?;
                std::fs::set_permissions(path, permissions)?;
                Ok(Rendezvous::Listen(socket))
            }
            other => other.map(Rendezvous::Listen),
        }
    }
}

/// A listening socket for its user and group only, whatever the umask. Linux makes the file with the socket's own mode,
/// less the umask, so it is never open to others (unix(7)).
fn bind(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::from_raw_mode(0o660))?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connects without blocking: a full queue counts as a refusal.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Serves one VMM after the other, until `end` becomes readable.
pub fn serve(
    port: &Arc<Shared>,
    rendezvous: &Rendezvous,
    end: &OwnedFd,
    current: &Mutex<Option<UnixStream>>,
) {
    while let Some(stream) = next_stream(rendezvous, end) {
        *lock(current) = stream.try_clone().ok();
        port.connected.store(true, Relaxed);
        let reason = serve_one(port, stream, end);
        port.connected.store(false, Relaxed);
        *lock(current) = None;
        if let Err(error) = reason {
            port.counters.note(format!("connection: {error}"));
        }
        // A pause bounds the rate of connections to a VMM that hangs up at once, or that blocks dispatchers.
        let wait = match rendezvous {
            _ if port.is_cut() => &BLOCKING_PAUSE,
            Rendezvous::Connect(_) => &RETRY_PAUSE,
            Rendezvous::Listen(_) => continue,
        };
        if pause(end, wait) {
            return;
        }
        port.clear_cut();
    }
}

/// The next VMM's connection; none at the end.
fn next_stream(rendezvous: &Rendezvous, end: &OwnedFd) -> Option<UnixStream> {
    loop {
        match rendezvous {
            Rendezvous::Connect(path) => {
                if let Ok(stream) = connect(path) {
                    return Some(stream);
                }
            }
            Rendezvous::Listen(listener) => {
                let mut fds = [
                    PollFd::new(end, PollFlags::IN),
                    PollFd::new(listener, PollFlags::IN),
                ];
                let _ = poll(&mut fds, None);
                if !fds[0].revents().is_empty() {
                    return None;
                }
                match listener.accept() {
                    Ok((stream, _)) if stream.set_nonblocking(false).is_ok() => {
                        return Some(stream);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    _ => {}
                }
            }
        }
        if pause(end, &RETRY_PAUSE) {
            return None;
        }
    }
}

/// Pauses before the next attempt; true at the end.
fn pause(end: &OwnedFd, wait: &Timespec) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    let _ = poll(&mut fds, Some(wait));
    !fds[0].revents().is_empty()
}

/// Serves a VMM until it hangs up or makes an error.
fn serve_one(port: &Arc<Shared>, stream: UnixStream, end: &OwnedFd) -> Result<(), Error> {
    let device = Arc::new(Mutex::new(Device::new(Arc::clone(port))));
    let socket = stream.try_clone().map_err(Error::SocketError)?;
    let mut crate_handler = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    loop {
        let mut fds = [
            PollFd::new(end, PollFlags::IN),
            PollFd::new(&socket, PollFlags::IN),
            PollFd::new(&port.cuts, PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if port.is_cut() {
            let what =
                "the VMM made an eventfd block and filled it; no VMM is accepted for a minute";
            return Err(Error::SocketError(io::Error::other(what)));
        }
        if fds[1].revents().is_empty() {
            continue;
        }
        let handled = messages::handle(&socket, &mut lock(&device)).map_err(Error::SocketError)?;
        if handled {
            continue;
        }
        match crate_handler.handle_request() {
            Ok(()) => {}
            Err(Error::Disconnected) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
