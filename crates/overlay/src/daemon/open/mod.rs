//! Opens ports: one constructor for each kind of interface and link.

mod context;
mod error;
mod opener;
mod port;
mod streams;
mod tunnel_key;
mod tunnels;
mod veths;

pub(super) use context::PortContext;
pub use error::OpenError;
pub(super) use opener::{Opener, take_settings};
pub(super) use port::{PortHandle, Receivers};
