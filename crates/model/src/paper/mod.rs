//! Papers whose studies latlab runs again: their published figures, and where a run's own figures for them are found.
//!
//! A paper is a document of `papers/`. Its tables have columns, which are environments, and rows, which are
//! quantities. The first column is the one that the others are divided by: across machines only ratios compare.

mod document;
pub(crate) mod name;
mod published;

pub use document::{Column, Paper, Quantity, Row, Select, Table};
pub use name::PaperName;
pub use published::Published;
