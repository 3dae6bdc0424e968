//! AF_XDP: packets between an interface and this process through shared memory, without the kernel's
//! network in between (Documentation/networking/af_xdp.rst).
//!
//! Two users: the generator, which only sends, and the layer-2 forwarder, which takes from one interface
//! what it sends through the other, both sockets sharing one memory so that a frame is not copied on the
//! way. Queue 0 only: what latlab makes has one, and the forwarder refuses an interface that receives by more.
//! Own code over raw sockets, because all it takes is four rings; the crates for it bind a C library that the
//! static agent would have to carry.

mod exchange;
mod port;
pub mod program;
mod sender;
mod sys;

pub use exchange::Exchange;
pub use port::CHUNK_BYTES;
pub use sender::Sender;
