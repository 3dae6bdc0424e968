//! Commands from this host, over a Unix socket.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::Mode;
use rustix::process::umask;

use super::conversation::{Clients, FULL, converse, spawn};
use crate::daemon::Daemon;
use crate::strangers::{ACCEPT_PAUSE, pause_after};

/// A listening socket. Dropping it removes its file.
#[derive(Debug)]
pub struct Local {
    path: PathBuf,
    listener: UnixListener,
}

impl Local {
    /// Listens at a socket that only this user may open. The socket of a daemon that was killed is replaced. Errors:
    /// another kind of file at this path, or a socket where a daemon answers.
    pub fn listen(path: &Path) -> io::Result<Local> {
        let refuse = |kind, why: &str| Err(io::Error::new(kind, why));
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return refuse(io::ErrorKind::AlreadyExists, "there is a file in its place");
            }
            if UnixStream::connect(path).is_ok() {
                return refuse(io::ErrorKind::AddrInUse, "another daemon answers there");
            }
            fs::remove_file(path)?;
        }
        // The mask closes it from the start. No other thread makes files meanwhile.
        let before = umask(Mode::RWXG | Mode::RWXO);
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener?;
        // Some file systems ignore the mask.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Local {
            path: path.to_path_buf(),
            listener,
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves clients for ever. Without descriptors or threads a client waits or is refused, and later ones are served.
    pub fn serve(&self, daemon: &Arc<Mutex<Daemon>>) -> ! {
        let clients = Clients::default();
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    std::thread::sleep(pause_after(&error));
                    continue;
                }
            };
            let Some(slot) = clients.enter() else {
                let _ = stream.write_all(FULL);
                continue;
            };
            let daemon = Arc::clone(daemon);
            let work = move || {
                let _slot = slot;
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
