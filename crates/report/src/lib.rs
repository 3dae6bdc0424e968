//! Conclusions and drawings: from a run directory to its summary, its table, its page, and from two runs to
//! their differences.
//!
//! This crate needs no root and reads nothing but the run directory, so a report can be made on another
//! machine and years later. The usual entry points:
//!
//! ```text
//! conclude(run)                      latency.hlog, summary.json, report.html from the raw files
//! terminal::render(summary, look)    the table for people;  terminal::csv for programs
//! compare::compare(first, second)    two runs, cell by cell
//! ```

#[cfg(test)]
extern crate self as latlab_report;

pub mod attribution;
pub mod compare;
mod counters;
mod effects;
mod emulation;
pub mod explain;
pub mod graph;
mod hlog;
pub mod html;
pub mod limit;
mod lives;
pub mod noise;
pub mod paper;
pub mod quantities;
mod scaling;
pub mod stats;
pub mod steal;
pub mod style;
pub mod summarise;
mod sweeps;
mod table;
pub mod terminal;
pub mod text;

/// The synthetic run of tests and the example; it lives beside the tests because it is no part of the product.
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use latlab_model::results::Summary;
use latlab_samples::{RunDirError, write_atomically};

pub use compare::compare;
pub use latlab_samples::RunDir;
pub use summarise::{Analysis, SummariseError, analyse};
pub use table::csv_row;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Summarise(#[from] SummariseError),
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Html(#[from] html::HtmlError),
}

/// Computes everything from the raw files of a run and writes `latency.hlog`, `summary.json` and
/// `report.html` beside them. Repeated, it gives the same bytes.
///
/// The manifest must be in its last state (complete, with checksums) before: it is part of the summary.
pub fn conclude(run: &RunDir) -> Result<Summary, ReportError> {
    let analysis = analyse(run)?;
    write_atomically(run.place("latency.hlog"), &analysis.hlog)?;
    run.write_summary(&analysis.summary)?;
    html::write(run, &analysis.summary)?;
    Ok(analysis.summary)
}
