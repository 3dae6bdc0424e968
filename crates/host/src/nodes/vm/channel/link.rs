//! The writing half of a channel.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use latlab_wire::channel::{Message, encode};

use super::error::Error;
use crate::sync::lock;
use crate::sys::file::Lock;

/// The writing half. When the last user drops it the socket closes, which ends the reader thread.
pub(super) struct Link {
    pub(super) stream: Mutex<UnixStream>,
    pub(super) next_session: AtomicU32,
    /// The port, and what keeps other clients off it.
    pub(super) port: Mutex<Option<Port>>,
}

/// A port that no other client may use meanwhile.
pub(super) struct Port {
    pub(super) index: usize,
    pub(super) _lock: Lock,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Already disconnected is as good.
        let _ = lock(&self.stream).shutdown(Shutdown::Both);
    }
}

impl Link {
    pub(super) fn send(&self, message: &Message) -> Result<(), Error> {
        let mut frame = Vec::new();
        encode(message, &mut frame)?;
        let mut stream = lock(&self.stream);
        stream.write_all(&frame).map_err(|source| {
            // A frame may be half out: nothing that follows would be understood.
            let _ = stream.shutdown(Shutdown::Both);
            Error::Closed {
                reason: format!("write to the guest: {source}"),
            }
        })
    }
}
