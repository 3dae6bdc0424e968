//! The supervisor: one thread that holds the listeners of all sessions and answers their calls.
//!
//! No program makes it wait: what would block is noted and taken up when its descriptor is ready. Relays, which move
//! bytes, have threads of their own.

mod accept;
mod accepts;
mod connect;
mod connection;
mod demote;
mod held;
mod names;
mod poll;
mod requests;
mod rescue;
mod run;
mod state;
mod stopped;
mod sweep;
mod switch;

pub use state::{Error, Supervisor};
