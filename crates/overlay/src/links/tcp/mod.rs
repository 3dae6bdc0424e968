//! Links over TCP: whole frames, each behind its length and the private header, plain or under TLS.
//!
//! For paths that block UDP. Each link has one connection. The `reconnector`, a dedicated thread, opens it and replaces
//! it when it ends, so no dispatcher ever blocks. Frames without a connection, or without room in the socket, are
//! dropped and counted. The rest of a frame that the socket took in part is sent first: by the next frame's dispatcher,
//! or by the reconnector once there is room.

mod config;
mod open;
mod receiver;
mod reconnector;
mod shared;
mod stream;
mod transmitter;

pub use config::{Role, TcpConfig};
pub use open::open;
pub use receiver::Receiver;
pub use transmitter::Transmitter;
