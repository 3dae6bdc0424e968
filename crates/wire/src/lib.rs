//! Byte layouts that cross a process, kernel or network boundary.
//!
//! One place holds every layout, so that both sides of a boundary are written against the same
//! lines, and so that every parser of outside bytes is here to be fuzzed. The contract: `parse`
//! never panics on any bytes.

pub mod begin;
pub mod channel;
pub mod corpus;
pub mod overlay;
pub mod probe;
pub mod quiet;
pub mod samples;
pub mod scratch;
pub mod streams;
pub mod terminal;
pub mod trace;
pub mod workload;
