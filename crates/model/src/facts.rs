//! Knowledge of the planner about a machine. Read from the machine by `latlab-host`, or from a file that
//! describes a machine elsewhere; planning cannot tell the difference.
//!
//! Three kinds of knowledge are kept apart. What is merely *read* (CPUs, memory, interfaces) is in [`Machine`]. What
//! must be *proven* is a [`Capability`], because files and versions promise what kernels do not keep. And what could
//! not be tried is in [`Facts::unproven`], so that "no" is never said where "not looked for" is meant.

pub(crate) mod document;
mod machine;
mod quiet;
mod readiness;
mod wiring;

pub use document::{Capability, Facts};
pub use machine::{
    Cache, Clock, CoreClass, GuestKernel, Kernel, Machine, Memory, Nic, NumaNode, Processors,
    Storage,
};
pub use quiet::{CgroupTree, IdleState, Interrupt, Power, Quiet};
pub use readiness::Readiness;
pub use wiring::{Fault, WiredPort, Wiring};
