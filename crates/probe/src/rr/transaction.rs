//! One transaction: the sizes of its messages, their header, its times, and the transport that performs it.

use latlab_wire::probe::{TransactionKind, TransactionRepr};
use latlab_wire::samples::Record;

use crate::error::Result;
use crate::net::Socket;

/// Message sizes of Felter et al. 2014, section III-F.
pub(super) const DEFAULT_REQUEST_BYTES: u64 = 100;
pub(super) const DEFAULT_RESPONSE_BYTES: u64 = 200;

/// Largest message over TCP. It bounds what a server allocates for a client.
pub(super) const MAX_STREAM_MESSAGE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) sent_ns: u64,
    /// None when no answer came in time.
    pub(super) received_ns: Option<u64>,
    /// Whether the kernel took the request at all.
    pub(super) sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) late: u64,
    pub(super) duplicates: u64,
    pub(super) unmatched: u64,
    pub(super) network_errors: u64,
}

/// Writes the header of a message; what follows it has no meaning.
pub(super) fn write_header(
    message: &mut [u8],
    kind: TransactionKind,
    sequence: u32,
    reply_bytes: u32,
) {
    let header = TransactionRepr {
        kind,
        sequence,
        message_bytes: message.len() as u32,
        reply_bytes,
    };
    header.emit(message);
}

pub(super) trait Transport {
    /// Performs the transaction number `sequence`. `history` holds the records of all earlier ones,
    /// by which a stray answer is told to be late or a duplicate. An error ends the run.
    fn exchange(&mut self, sequence: u32, history: &[Record], tally: &mut Tally) -> Result<Times>;

    fn socket(&self) -> &Socket;

    fn socket_name(&self) -> &'static str;
}
