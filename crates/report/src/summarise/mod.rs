//! From a run directory to its summary.
//!
//! The summary is a function of the manifest, the trials' records and their samples alone: neither the clock,
//! nor the machine, nor an earlier summary is read. So `latlab report RUN` writes the same bytes again on any
//! machine, and a number that looks wrong can be followed back to its packets.
//!
//! Memory: one cell is worked on at a time, and its samples are held as sorted 64-bit numbers, so ten million
//! samples in a cell cost 80 MB, and further cells nothing more. Slow packets are found by two passes over
//! the packets' table, a row group at a time ([`crate::attribution::Survey`]).
//!
//! An incomplete or damaged run is summarised from its readable files. Missing parts become notes, not
//! errors: only an unreadable manifest leaves nothing to say.

mod actions;
mod analysis;
mod cells;
mod effects;
mod groups;
mod notes;
mod range;
mod scaling;
mod sensors;
mod starts;
pub(crate) mod trials;
mod workload;

pub use analysis::{Analysis, SummariseError, analyse};
pub use cells::Evidence;
pub(crate) use cells::{Pair, adjust};
