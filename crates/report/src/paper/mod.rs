//! A paper's published figures beside those of runs.
//!
//! ```text
//! papers/NAME.yaml ─┐
//! summaries ────────┴─ figure (values of each column) ─ compare (ratios, verdicts) ─ table (for people)
//! ```

mod compare;
mod csv;
mod figure;
mod table;

pub use compare::{compare, of_run};
pub use csv::csv;
pub use table::render;
pub(crate) use table::tables;
