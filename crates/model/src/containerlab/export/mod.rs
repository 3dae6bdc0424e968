//! A topology of a lab.
//!
//! A lab says nothing of what it leaves to latlab: addresses, the MTU, the process that keeps a container. All of
//! that is written, so that containerlab makes the same network.

mod cables;
mod node;
mod topology;

pub use topology::{Exported, export};
