//! Byte layouts that cross a process, kernel or network boundary.
//!
//! One place holds every layout, so that both sides of a boundary are written against the same
//! lines, and so that every parser of outside bytes is here to be fuzzed. The contract, as in
//! smoltcp: what is made by a checked constructor or by `parse` never panics on any bytes; an
//! accessor on an unchecked view may, when the buffer is shorter than the header.

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
