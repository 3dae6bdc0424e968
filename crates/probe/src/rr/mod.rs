//! Request and response: one transaction in flight, or as many as a rate makes; every one recorded.
//!
//! The client sends a request, waits for the response, and only then sends the next; what it
//! measures is the round trip as an application sees it, system calls and wake-ups included.
//! Sizes are those of the whole message (TCP and UDP payload, ICMP data) and at least
//! [`HEADER_BYTES`](latlab_wire::probe::HEADER_BYTES).
//!
//! Without a rate the loop is *closed*: while a response is late, no further request is sent, so a stall of 10 ms is one slow
//! transaction here and not the hundreds that would have been sent meanwhile. That is what request/response means; the
//! delay that a steady stream of requests suffers is measured with a rate ([`open_loop`]), that of packets one way by
//! `source` and `sink`.

pub mod client;
mod datagram;
mod open_loop;
pub mod server;
mod stream;

use latlab_wire::probe::{TransactionKind, TransactionRepr};
use latlab_wire::samples::Record;

use crate::error::Result;
use crate::net::Socket;

/// Message sizes of Felter et al. 2014, section III-F.
const DEFAULT_REQUEST_BYTES: u64 = 100;
const DEFAULT_RESPONSE_BYTES: u64 = 200;

/// Largest message over TCP. It bounds what a server allocates for a client.
const MAX_STREAM_MESSAGE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    sent_ns: u64,
    /// None when no answer came in time.
    received_ns: Option<u64>,
    /// Whether the kernel took the request at all.
    sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    late: u64,
    duplicates: u64,
    unmatched: u64,
    network_errors: u64,
}

/// Writes the header of a message; what follows it has no meaning.
fn write_header(message: &mut [u8], kind: TransactionKind, sequence: u32, reply_bytes: u32) {
    let header = TransactionRepr {
        kind,
        sequence,
        message_bytes: message.len() as u32,
        reply_bytes,
    };
    header.emit(message);
}

trait Transport {
    /// Performs the transaction number `sequence`. `history` holds the records of all earlier ones,
    /// by which a stray answer is told to be late or a duplicate. An error ends the run.
    fn exchange(&mut self, sequence: u32, history: &[Record], tally: &mut Tally) -> Result<Times>;

    fn socket(&self) -> &Socket;

    fn socket_name(&self) -> &'static str;
}
