//! Conversations over a Unix socket.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::session::Session;
use crate::daemon::Daemon;

/// Most conversations at once.
const MAX_CLIENTS: usize = 32;

/// Longest line, its end included.
const MAX_LINE: u64 = 4097;

/// A socket where commands are taken. Dropping it removes its file.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
}

/// Listens at a socket that only this user may open.
///
/// # Errors
///
/// A file that is in the way; a socket that another daemon answers at. One that nobody answers at is
/// what a killed daemon has left, and is replaced.
pub fn listen(path: &Path) -> io::Result<Server> {
    if let Ok(found) = fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt;
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
    Ok(Server {
        path: path.to_path_buf(),
        listener,
    })
}

impl Server {
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
        let clients = Arc::new(AtomicUsize::new(0));
        loop {
            let (mut stream, _) = self.listener.accept()?;
            if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                let _ = stream.write_all(b"error 1: too many clients (close one)\n");
                continue;
            }
            let (daemon, clients) = (Arc::clone(daemon), Arc::clone(&clients));
            std::thread::Builder::new()
                .name("control".into())
                .spawn(move || {
                    // A client that hangs up has said all that it wanted.
                    let _ = converse(&stream, &stream, Session::new(daemon));
                    clients.fetch_sub(1, Ordering::Relaxed);
                })?;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers every line until the other hangs up.
pub(super) fn converse(
    from: impl Read,
    mut to: impl Write,
    mut session: Session,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut from).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            // What follows is in the middle of a line: nothing of it can be understood.
            return to.write_all(b"error 1: the line is too long (it has at most 4096 bytes)\n");
        }
        let answer = match std::str::from_utf8(&line) {
            Ok(text) => session.answer(text.trim_end_matches(['\n', '\r'])),
            Err(_) => "error 1: the line is not text (send UTF-8)\n".into(),
        };
        to.write_all(answer.as_bytes())?;
    }
}
