//! The reader thread: gives each message from the guest to whom it is for.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use latlab_wire::channel::{Decoder, ExitStatus, Message};

use super::error::Error;
use super::shared::{Failure, Shared};
use crate::sync::lock;

#[derive(Default)]
pub(super) struct Demux {
    pub(super) state: Mutex<DemuxState>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct DemuxState {
    pub(super) sessions: HashMap<u32, Arc<Shared>>,
    pub(super) hello: Option<Hello>,
    pub(super) nonce: u64,
    pub(super) closed: Option<String>,
    /// Where the guest's bytes come from once the present stream has ended.
    pub(super) successor: Option<UnixStream>,
}

#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) failure: Option<String>,
}

impl DemuxState {
    fn finish(&mut self, session: u32, result: Result<ExitStatus, Failure>) {
        if let Some(shared) = self.sessions.remove(&session) {
            shared.finish(result);
        }
    }
}

impl Demux {
    /// The reader thread. It never writes: a full pipe towards the guest may wait for the guest to be
    /// read from, so the reader must not wait for a writer.
    pub(super) fn read_from(&self, mut stream: UnixStream) {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 64 * 1024];
        let reason = 'read: loop {
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 => decoder.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                ended => {
                    // A guest that moved goes on in the middle of a message.
                    if let Some(next) = lock(&self.state).successor.take() {
                        stream = next;
                        continue;
                    }
                    break match ended {
                        Err(error) => format!("read from the guest: {error}"),
                        Ok(_) => "the guest ended".to_owned(),
                    };
                }
            }
            for message in decoder.by_ref() {
                if let Err(reason) = self.deliver(message) {
                    break 'read reason;
                }
            }
        };
        let _ = stream.shutdown(Shutdown::Both);
        let mut state = lock(&self.state);
        for session in state.sessions.drain().map(|(_, session)| session) {
            session.finish(Err(Failure::Closed {
                reason: reason.clone(),
            }));
        }
        state.closed = Some(reason);
        self.changed.notify_all();
    }

    fn deliver(&self, message: Message) -> Result<(), String> {
        let mut state = lock(&self.state);
        match message {
            Message::HelloAck {
                version,
                nonce,
                failure,
                ..
            } => {
                if nonce == state.nonce {
                    state.hello = Some(Hello { version, failure });
                    self.changed.notify_all();
                }
            }
            // Before our own greeting is answered, every message is for a former client.
            _ if state.hello.is_none() => {}
            Message::Data {
                session,
                stream,
                data,
            } => {
                let Some(shared) = state.sessions.get(&session).cloned() else {
                    return Ok(());
                };
                drop(state);
                shared.receive(stream, &data)?;
            }
            Message::End { session, stream } => {
                if let Some(shared) = state.sessions.get(&session) {
                    shared.end(stream);
                }
            }
            Message::Credit { session, bytes, .. } => {
                if let Some(shared) = state.sessions.get(&session) {
                    shared.add_credit(bytes);
                }
            }
            Message::Exit { session, status } => state.finish(session, Ok(status)),
            Message::Done { session } => state.finish(session, Ok(ExitStatus::Code(0))),
            Message::Failed {
                session,
                errno,
                message,
            } => state.finish(session, Err(Failure::Refused { errno, message })),
            // Messages of a host mean nothing to one.
            Message::Hello { .. }
            | Message::Exec { .. }
            | Message::Signal { .. }
            | Message::Network { .. }
            | Message::Identify { .. }
            | Message::Renew { .. }
            | Message::PowerOff => {}
        }
        Ok(())
    }

    /// Waits until `look` finds something, the deadline passes (`None`) or the channel closes.
    pub(super) fn wait<T>(
        &self,
        deadline: Instant,
        look: impl Fn(&DemuxState) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = lock(&self.state);
        loop {
            if let Some(found) = look(&state) {
                return Ok(Some(found));
            }
            if let Some(reason) = &state.closed {
                return Err(Error::Closed {
                    reason: reason.clone(),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
