//! A process in the guest, as its user on the host sees it: readers, a writer, a signal, an end.

use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use latlab_wire::channel::{
    Exec, ExitStatus, MAX_PAYLOAD, Message, Stream, UNLIMITED_CREDIT, WINDOW_BYTES,
};

use super::demux::Demux;
use super::error::Error;
use super::link::Link;
use super::shared::{Failure, Shared};
use crate::nodes::session;
use crate::sync::lock;

/// Consumed output is reported in portions of this.
const CREDIT_BYTES: u32 = WINDOW_BYTES / 4;

/// A session's number and state, shared by its parts.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) link: Arc<Link>,
    pub(super) demux: Arc<Demux>,
    pub(super) number: u32,
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn wait_for(
        &self,
        timeout: Duration,
        what: &'static str,
    ) -> Result<ExitStatus, Error> {
        let start = Instant::now();
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(result) = &state.result {
                return result.clone().map_err(Error::from);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Silent {
                    what,
                    after: timeout,
                });
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the session up on this side, so that its readers and writers end.
    pub(super) fn abandon(&self) {
        lock(&self.demux.state).sessions.remove(&self.number);
        self.shared.finish(Err(Failure::Closed {
            reason: "the session was given up".into(),
        }));
    }

    pub(super) fn signal(&self, signal: u8) -> Result<(), Error> {
        self.link.send(&Message::Signal {
            session: self.number,
            signal,
        })
    }
}

pub struct Session {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub(super) handle: Handle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Session {
    pub(super) fn new(handle: Handle) -> Self {
        let output = |stream| Output {
            handle: handle.clone(),
            stream,
        };
        Self {
            stdin: Some(Input {
                handle: handle.clone(),
            }),
            stdout: Some(output(Stream::Stdout)),
            stderr: Some(output(Stream::Stderr)),
            handle,
        }
    }

    /// Sends a signal (numbered as on Linux/x86) to the process and its group.
    pub fn signal(&self, signal: u8) -> Result<(), Error> {
        self.handle.signal(signal)
    }

    /// Waits for its end, but no longer than `timeout`. Its output should be read meanwhile, or dropped: a process that
    /// cannot write does not end. Errors: [`Error::Refused`] when it could not be started; [`Error::Closed`] when the
    /// guest went away; [`Error::Silent`].
    pub fn wait_for(&self, timeout: Duration) -> Result<ExitStatus, Error> {
        self.handle.wait_for(timeout, "with the process's end")
    }
}

pub struct Input {
    handle: Handle,
}

impl Write for Input {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let mut state = lock(&self.handle.shared.state);
        let count = loop {
            if state.result.is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if state.input_credit > 0 {
                break data.len().min(MAX_PAYLOAD).min(state.input_credit as usize);
            }
            state = self.handle.shared.wait(state);
        };
        state.input_credit -= count as u32;
        drop(state);
        let (session, data) = (self.handle.number, data[..count].to_vec());
        let message = Message::Data {
            session,
            stream: Stream::Stdin,
            data,
        };
        self.handle.link.send(&message).map_err(io::Error::other)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let message = Message::End {
            session: self.handle.number,
            stream: Stream::Stdin,
        };
        // A closed channel needs no message.
        let _ = self.handle.link.send(&message);
    }
}

pub struct Output {
    handle: Handle,
    stream: Stream,
}

impl Read for Output {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut state = lock(&self.handle.shared.state);
        while state.output(self.stream).bytes.is_empty() {
            if let Some(Err(Failure::Closed { reason })) = &state.result {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    reason.clone(),
                ));
            }
            if state.output(self.stream).ended {
                return Ok(0);
            }
            state = self.handle.shared.wait(state);
        }
        let running = state.result.is_none();
        let buffer = state.output(self.stream);
        let count = buffer.bytes.read(target)?;
        buffer.consumed += count as u32;
        let bytes = buffer.consumed;
        if running && bytes >= CREDIT_BYTES {
            buffer.consumed = 0;
            drop(state);
            let (session, stream) = (self.handle.number, self.stream);
            // On a closed channel no more will come; what is here can still be read.
            let _ = self.handle.link.send(&Message::Credit {
                session,
                stream,
                bytes,
            });
        }
        Ok(count)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut state = lock(&self.handle.shared.state);
        let running = state.result.is_none();
        let buffer = state.output(self.stream);
        buffer.dropped = true;
        buffer.bytes.clear();
        let ended = buffer.ended;
        drop(state);
        if running && !ended {
            let (session, stream) = (self.handle.number, self.stream);
            let credit = Message::Credit {
                session,
                stream,
                bytes: UNLIMITED_CREDIT,
            };
            // A closed channel needs no message.
            let _ = self.handle.link.send(&credit);
        }
    }
}

impl session::Session for Session {
    fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>> {
        self.stdin.take().map(|stdin| Box::new(stdin) as _)
    }

    fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stdout.take().map(|stdout| Box::new(stdout) as _)
    }

    fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stderr.take().map(|stderr| Box::new(stderr) as _)
    }

    fn signaller(&self) -> session::Signaller {
        let handle = self.handle.clone();
        Box::new(move |signal| {
            let signal = u8::try_from(signal);
            let signal = signal.map_err(|error| session::Error::Other(error.to_string()))?;
            Ok(handle.signal(signal)?)
        })
    }

    fn wait_for(&mut self, timeout: Duration) -> Result<Option<session::Exit>, session::Error> {
        match Session::wait_for(self, timeout) {
            Ok(status) => Ok(Some(exit_of(status))),
            Err(Error::Silent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn exit_of(status: ExitStatus) -> session::Exit {
    match status {
        ExitStatus::Code(code) => session::Exit::Code(code.into()),
        ExitStatus::Signal(signal) => session::Exit::Signal(signal.into()),
    }
}

/// A node's command in the channel's terms.
pub fn exec_of(command: &session::Command) -> Exec {
    Exec {
        argv: command.argv.clone(),
        env: command.env.clone().into_iter().collect(),
        cwd: command.cwd.clone(),
        ..Exec::default()
    }
}
