//! One folder or file a kind of node. A kind knows how to start, how to run a command inside, and
//! how to stop; what joins nodes is in [`crate::links`], in which order all of it happens in
//! [`crate::lab`].

pub mod container;
mod error;
pub mod native;
pub mod piped;
pub mod session;
pub mod vm;
