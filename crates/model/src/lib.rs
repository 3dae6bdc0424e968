//! latlab's documents. Data flows one way through them:
//!
//! ```text
//! lab.yaml ─ check ─► spec ─ + facts ─► plan ─► build ─► state ─► measure ─► results ─► report
//! ```
//!
//! Everything here describes or computes; nothing here opens a file, a socket or a namespace. That
//! is what lets any stage be tested from a saved document, and placement on a 128-core machine be
//! tested on a laptop: the host's facts are an argument, never read.

pub mod adapt;
pub mod boot;
pub mod containerlab;
pub mod diagnostic;
pub mod facts;
pub mod kinds;
pub mod overlay;
pub mod paper;
pub mod plan;
pub mod profile;
pub mod results;
pub mod snapshot;
pub mod spec;
pub mod state;
pub mod traffic;
pub mod units;
mod words;

/// Whether a document leaves a field out (`skip_serializing_if`).
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
