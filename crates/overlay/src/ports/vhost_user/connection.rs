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
use vhost::vhost_user::{BackendReqHandler, Error};

use super::device::Device;
use super::messages;
use super::shared::Shared;

/// How often a monitor that is not there is called.
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

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
    /// killed, and replaced.
    ///
    /// # Errors
    ///
    /// Somebody listens there, or something else is there.
    pub fn listen(path: &Path) -> io::Result<Meeting> {
        match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let refused = UnixStream::connect(path).err().map(|e| e.kind());
                if refused != Some(io::ErrorKind::ConnectionRefused) {
                    return Err(error);
                }
                std::fs::remove_file(path)?;
                UnixListener::bind(path).map(Meeting::Listen)
            }
            other => other.map(Meeting::Listen),
        }
    }
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
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next monitor; none at the end.
fn meet(meeting: &Meeting, end: &OwnedFd) -> Option<UnixStream> {
    loop {
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        let wait = match meeting {
            Meeting::Listen(listener) => {
                fds.push(PollFd::new(listener, PollFlags::IN));
                None
            }
            Meeting::Call(path) => match UnixStream::connect(path) {
                Ok(stream) => return Some(stream),
                Err(_) => Some(&AGAIN),
            },
        };
        // An interrupted call only looks again.
        let _ = poll(&mut fds, wait);
        if !fds[0].revents().is_empty() {
            return None;
        }
        if let Meeting::Listen(listener) = meeting {
            if fds[1].revents().is_empty() {
                continue;
            }
            // One that is gone again is not missed.
            if let Ok((stream, _)) = listener.accept() {
                return Some(stream);
            }
        }
    }
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
        ];
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return Ok(());
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
