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
mod transaction;
