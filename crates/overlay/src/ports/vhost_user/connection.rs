//! The thread that speaks with the monitor: waits for it or calls it, serves it, and starts over.
//!
//! One thread a port, blocking: a monitor that sends half a message keeps nobody waiting but itself.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::device::Device;
use super::messages;
use super::shared::Shared;

/// How long until the next attempt after a call that failed or a conversation that ended, and after a
/// connection that could not be accepted (no more descriptors, for instance).
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// How long a monitor stays away that has made an eventfd block: a dispatcher stood still for up to two ticks of
/// the watchdog.
const BANISHED: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// Connections that wait until they are accepted; one monitor is served at a time.
const BACKLOG: i32 = 16;

/// Who calls whom.
#[derive(Debug)]
pub enum Meeting {
    /// The monitor connects.
    Listen(UnixListener),
    /// We do, as often as it takes.
    Call(PathBuf),
}

impl Meeting {
    /// Listens at a path. A socket that nobody listens at any more is the rest of a daemon that was
    /// killed, and replaced by one of the same mode: a monitor of another user was let in there.
    ///
    /// # Errors
    ///
    /// Somebody listens there, or something else is there.
    pub fn listen(path: &Path) -> io::Result<Meeting> {
        match bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let refused = call(path).err().map(|e| e.kind());
                if refused != Some(io::ErrorKind::ConnectionRefused) {
                    return Err(error);
                }
                let permissions = std::fs::metadata(path)?.permissions();
                std::fs::remove_file(path)?;
                let socket = bind(path)?;
                std::fs::set_permissions(path, permissions)?;
                Ok(Meeting::Listen(socket))
            }
            other => other.map(Meeting::Listen),
        }
    }
}

/// A listening socket that others than its user and group cannot open, whatever the umask. Linux makes the
/// file with the socket's own mode, less the umask, so there is no moment at which it is open (unix(7)).
fn bind(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::from_raw_mode(0o660))?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connects without waiting: a socket whose queue is full is as good as one where nobody listens.
fn call(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Serves one monitor after the other, until `end` becomes readable.
pub fn serve(
    port: &Arc<Shared>,
    meeting: &Meeting,
    end: &OwnedFd,
    current: &Mutex<Option<UnixStream>>,
) {
    while let Some(stream) = meet(meeting, end) {
        *lock(current) = stream.try_clone().ok();
        port.connected.store(true, Relaxed);
        let reason = converse(port, stream, end);
        port.connected.store(false, Relaxed);
        *lock(current) = None;
        if let Err(error) = reason {
            port.note(format!("connection: {error}"));
        }
        // A monitor that hangs up at once is not called all the time, and one that blocks a dispatcher until
        // the watchdog ends that does so rarely.
        let wait = match meeting {
            _ if port.is_cut() => &BANISHED,
            Meeting::Call(_) => &AGAIN,
            Meeting::Listen(_) => continue,
        };
        if pause(end, wait) {
            return;
        }
        port.forgive();
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next monitor; none at the end.
fn meet(meeting: &Meeting, end: &OwnedFd) -> Option<UnixStream> {
    loop {
        match meeting {
            Meeting::Call(path) => {
                if let Ok(stream) = call(path) {
                    return Some(stream);
                }
            }
            Meeting::Listen(listener) => {
                let mut fds = [
                    PollFd::new(end, PollFlags::IN),
                    PollFd::new(listener, PollFlags::IN),
                ];
                // An interrupted call only looks again.
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
        if pause(end, &AGAIN) {
            return None;
        }
    }
}

/// Waits before the next attempt; true at the end.
fn pause(end: &OwnedFd, wait: &Timespec) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    let _ = poll(&mut fds, Some(wait));
    !fds[0].revents().is_empty()
}

/// Speaks with a monitor until it hangs up, or makes a mistake.
fn converse(port: &Arc<Shared>, stream: UnixStream, end: &OwnedFd) -> Result<(), Error> {
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
                "the monitor made an eventfd block and filled it; none is taken for a minute";
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
