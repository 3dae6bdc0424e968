//! Commands from this host: a Unix socket.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::Mode;
use rustix::process::umask;

use super::conversation::{FULL, Room, converse, spawn};
use crate::daemon::Daemon;
use crate::strangers::{ACCEPT_PAUSE, pause_after};

/// A socket where commands are taken. Dropping it removes its file.
#[derive(Debug)]
pub struct Local {
    path: PathBuf,
    listener: UnixListener,
}

impl Local {
    /// Listens at a socket that only this user may open.
    ///
    /// # Errors
    ///
    /// A file that is in the way; a socket that another daemon answers at. One that nobody answers at
    /// is what a killed daemon has left, and is replaced.
    pub fn listen(path: &Path) -> io::Result<Local> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is a file in its place",
                ));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another daemon answers there",
                ));
            }
            fs::remove_file(path)?;
        }
        // Nobody else finds it open in between. No other thread makes files meanwhile.
        let before = umask(Mode::RWXG | Mode::RWXO);
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener?;
        // What the file system makes of the mask is its own.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Local {
            path: path.to_path_buf(),
            listener,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Converses about a daemon, for ever. A client for whom there is no descriptor or thread at the moment waits or is
    /// sent away; the next one finds the socket as it was.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> ! {
        let room = Room::default();
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    std::thread::sleep(pause_after(&error));
                    continue;
                }
            };
            let Some(place) = room.enter() else {
                let _ = stream.write_all(FULL);
                continue;
            };
            let daemon = Arc::clone(daemon);
            let work = move || {
                let _place = place;
                converse(stream, daemon)
            };
            if spawn(work).is_err() {
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
