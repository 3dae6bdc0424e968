//! A program in one or more nodes, and a figure from its output.
//!
//! Every node first makes ready: a server starts, a built-in program tells its version and warms up. Then the agent of
//! each node waits with the program, and all begin at one moment, which is named on each node's own clock. What is read
//! of the machine (memory, CPU time) is read while all wait and when all have ended; in between, this process sleeps, or
//! looks twice a second whether servers live.
//! Behind it, a built-in program shows evidence of what it did.

mod clients;
mod figure;
mod measurement;
mod node;
pub mod programs;
mod site;
mod usage;

pub use measurement::{figures, measure};
