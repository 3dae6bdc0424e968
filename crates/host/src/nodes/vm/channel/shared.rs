//! One session, between its user and the reader thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use latlab_wire::channel::{ExitStatus, Stream, WINDOW_BYTES};

use super::error::Error;
use crate::sync::lock;

/// One session, between its user and the reader thread.
pub(super) struct Shared {
    pub(super) state: Mutex<SessionState>,
    pub(super) changed: Condvar,
}

pub(super) struct SessionState {
    pub(super) outputs: [Buffer; 2],
    pub(super) input_credit: u32,
    pub(super) result: Option<Result<ExitStatus, Failure>>,
}

#[derive(Default)]
pub(super) struct Buffer {
    pub(super) bytes: VecDeque<u8>,
    pub(super) ended: bool,
    /// Its reader is gone: output is thrown away, and the agent need not count it.
    pub(super) dropped: bool,
    pub(super) consumed: u32,
}

#[derive(Debug, Clone)]
pub(super) enum Failure {
    Refused { errno: u32, message: String },
    Closed { reason: String },
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused { errno, message } => Self::Refused { errno, message },
            Failure::Closed { reason } => Self::Closed { reason },
        }
    }
}

impl SessionState {
    pub(super) fn output(&mut self, stream: Stream) -> &mut Buffer {
        &mut self.outputs[usize::from(stream == Stream::Stderr)]
    }
}

impl Shared {
    /// A session that may send this much input.
    pub(super) fn new(input_credit: u32) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(SessionState {
                outputs: Default::default(),
                input_credit,
                result: None,
            }),
            changed: Condvar::new(),
        })
    }

    /// Stores output, unless its reader is gone. An agent that sends beyond its credit is not ours.
    pub(super) fn receive(&self, stream: Stream, data: &[u8]) -> Result<(), String> {
        let mut state = lock(&self.state);
        let buffer = state.output(stream);
        if buffer.dropped {
            return Ok(());
        }
        if buffer.bytes.len() + data.len() > WINDOW_BYTES as usize {
            return Err("the agent sent output beyond its credit".into());
        }
        buffer.bytes.extend(data);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn end(&self, stream: Stream) {
        lock(&self.state).output(stream).ended = true;
        self.changed.notify_all();
    }

    pub(super) fn add_credit(&self, bytes: u32) {
        let mut state = lock(&self.state);
        state.input_credit = state.input_credit.saturating_add(bytes);
        self.changed.notify_all();
    }

    pub(super) fn finish(&self, result: Result<ExitStatus, Failure>) {
        let mut state = lock(&self.state);
        for buffer in &mut state.outputs {
            buffer.ended = true;
        }
        state.result.get_or_insert(result);
        self.changed.notify_all();
    }

    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, SessionState>,
    ) -> MutexGuard<'a, SessionState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}
