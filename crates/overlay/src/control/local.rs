//! Commands from this host: a Unix socket.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::conversation::{Room, converse};
use crate::daemon::Daemon;

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
        let listener = UnixListener::bind(path)?;
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

    /// Converses about a daemon, for ever.
    ///
    /// # Errors
    ///
    /// The socket fails.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> io::Result<()> {
        let room = Room::default();
        loop {
            let (mut stream, _) = self.listener.accept()?;
            let Some(place) = room.enter() else {
                let _ = stream.write_all(b"error 1: too many clients (close one)\n");
                continue;
            };
            let daemon = Arc::clone(daemon);
            place.spawn(move || converse(stream, daemon))?;
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
