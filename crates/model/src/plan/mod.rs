//! From a lab and a machine's facts to everything that will be made, with no choice left open.
//!
//! Planning is pure. Whatever can be found wrong is found here, before anything changes: unknown
//! capabilities, cores that the machine does not have, address clashes, names already taken. The
//! plan is a document: it is saved with the lab, and `destroy` and the report need no lab file.

mod address;
pub(crate) mod blueprint;
mod check;
mod describe;
mod document;
mod interfaces;
mod lacks;
mod link;
mod machines;
mod names;
mod node;
mod part;
mod place;
mod planner;
mod records;
mod resolve;
mod run;
mod spread;
mod wires;
mod wiring;
mod workload;

pub(crate) use address::hash;
pub use blueprint::{Blueprint, Given, MemoryPlace, NicPlace, NodePlace, Share};
pub use describe::describe;
pub use document::{Plan, Reach, TuningPlan};
// The kinds have structures of their own there.
pub use link::*;
pub use machines::{Machines, Places, PlannedLab, PlannedPart};
pub use names::{Addresses, Names};
pub use node::*;
pub use part::Part;
pub use place::Profiles;
pub use planner::{addressed, blueprint, plan, plan_with};
pub use records::RECORD_BYTES;
pub use run::{PartNumber, PlanLab, RunPlan, Visit, factors, plan_run, plan_run_with, trials};
pub use spread::{Room, settle, spread};
pub use wiring::{DriverOf, RESET_HINT, wiring};
