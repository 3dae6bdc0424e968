//! Control: the line language (`latlab_model::overlay::language`) over a Unix socket, and over TCP under mutual TLS.
//!
//! An answer is any number of lines that begin with a space, and a last one that does not: `ok`, or
//! `error COLUMN: MESSAGE (HINT)`. Between `begin` and `commit` commands change a draft; `commit` installs all of it or,
//! after any error, none.

mod client;
mod conversation;
mod local;
mod remote;
mod session;

pub use client::{Client, Refusal};
pub use local::Local;
pub use remote::Remote;
pub use session::Session;
