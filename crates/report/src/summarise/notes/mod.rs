//! Caveats: what a reader must know before trusting a number. One note a kind, with the cells it concerns;
//! the most serious first.
//!
//! Notes neither remove nor correct a number. A measurement on an overloaded machine stays a measurement, and
//! the note stands beside it.

mod actions;
mod all;
mod clock;
mod context;
mod machine;
mod packets;
mod run;
mod samples;
mod tails;

pub(super) use all::all;
pub(super) use context::Context;
