//! The daemon: a configuration, and all that is open because of it.
//!
//! A change is a whole new configuration. Its new ports are opened first, and only if all of them open does anything
//! change: the dispatchers take a new snapshot between two batches, new ports are attached, old ones are detached and
//! closed. Ports of both configurations are not touched, so their traffic does not notice. A link that replaces another
//! to the same host inherits its number, and with it frames under way and learned addresses; one of the same name, what was
//! moved there.
//!
//! - `state`: the daemon; `install`: changes of the configuration; `report`: its statistics
//! - `moves`: holds of frames, moves of addresses
//! - `open`: opens each kind of port and link
//! - `route_offload`: keeps the kernel path in step

mod error;
mod install;
mod moves;
mod open;
mod port_config;
mod report;
mod route_offload;
mod source_address;
mod state;

pub use error::Error;
pub use open::OpenError;
pub use report::Statistics;
pub use state::{Daemon, Holder};
