//! Sessions over a stream, and their number.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::session::Session;
use crate::daemon::Daemon;

/// Answer to a client beyond the maximum.
pub(super) const FULL: &[u8] = b"error 1: too many clients (close one)\n";

/// Maximum number of concurrent clients per listener.
const MAX_CLIENTS: usize = 32;

/// Maximum length of a line, its end included.
const MAX_LINE: u64 = 4097;

#[derive(Debug, Clone, Default)]
pub(super) struct Clients(Arc<AtomicUsize>);

#[derive(Debug)]
pub(super) struct ClientSlot(Arc<AtomicUsize>);

impl Clients {
    pub fn enter(&self) -> Option<ClientSlot> {
        let slot = ClientSlot(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::Relaxed) < MAX_CLIENTS).then_some(slot)
    }
}

/// Serves a client on a dedicated thread. If none can be started, the connection is closed.
pub(super) fn spawn(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("control".into());
    let converse = move || {
        // A client may hang up at any time.
        let _ = work();
    };
    thread.spawn(converse).map(drop)
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers every line until the client hangs up.
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
            // The rest of the line cannot be parsed.
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
