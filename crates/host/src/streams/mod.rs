//! Streams of a lab: its supervisor (`latlab-streams`), started with the lab, and what commands of nodes say to it.
//!
//! The supervisor carries the lab's label, so removing the lab's processes ends it.

mod client;
mod config;
mod error;
mod start;

pub use client::Client;
pub(crate) use client::open_session;
pub use config::has_streams;
pub use error::Error;
pub use latlab_wire::streams::{Demoted, PortStatus};
pub(crate) use start::start;
