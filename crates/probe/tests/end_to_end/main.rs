//! The probes as processes, over real sockets.

mod arguments;
mod harness;
mod layer2;
mod packets;
mod rr;
