//! The probes as processes, over real sockets.

mod arguments;
mod harness;
mod packets;
mod rr;
