//! A conversation over any stream, and how many there may be at once.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::session::Session;
use crate::daemon::Daemon;

/// What a client hears that finds no room.
pub(super) const FULL: &[u8] = b"error 1: too many clients (close one)\n";

/// Most conversations at once, for each place where the daemon listens.
const MAX_CLIENTS: usize = 32;

/// Longest line, its end included.
const MAX_LINE: u64 = 4097;

/// The conversations that go on at one place.
#[derive(Debug, Clone, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

/// One of them; dropped when it is over.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Room {
    /// A place, unless all are taken.
    pub fn enter(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::Relaxed) < MAX_CLIENTS).then_some(place)
    }
}

/// Converses on a thread of its own.
///
/// # Errors
///
/// No thread can be started; the connection is closed then.
pub(super) fn spawn(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("control".into());
    let converse = move || {
        // A client that hangs up has said all that it wanted.
        let _ = work();
    };
    thread.spawn(converse).map(drop)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers every line until the other hangs up.
pub(super) fn converse(stream: impl Read + Write, daemon: Arc<Mutex<Daemon>>) -> io::Result<()> {
    let mut session = Session::new(daemon);
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stream).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            // What follows is in the middle of a line: nothing of it can be understood.
            let refusal = b"error 1: the line is too long (it has at most 4096 bytes)\n";
            stream.get_mut().write_all(refusal)?;
            return stream.get_mut().flush();
        }
        let answer = match std::str::from_utf8(&line) {
            Ok(text) => session.answer(text.trim_end_matches(['\n', '\r'])),
            Err(_) => "error 1: the line is not text (send UTF-8)\n".into(),
        };
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()?;
    }
}
