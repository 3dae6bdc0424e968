//! Everything that concludes and draws: from a run directory to its summary, its table, its page,
//! and from two runs to what changed.
//!
//! Nothing here needs root, looks at the machine, or touches anything but the run directory, so a
//! report can be made on another machine and years later. The usual ways in:
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
pub mod explain;
pub mod graph;
pub mod hlog;
pub mod html;
pub mod noise;
pub mod stats;
pub mod steal;
pub mod summarise;
mod table;
pub mod terminal;
pub mod text;
mod time;

/// The run that tests and the example make up; it lives beside the tests because it is no part of
/// the product.
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use latlab_model::results::Summary;
use latlab_samples::{RunDirError, write_atomically};

pub use compare::compare;
pub use latlab_samples::RunDir;
pub use summarise::{Analysis, SummariseError, analyse};
pub use table::csv_row;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is nothing to conclude from.
    #[error(transparent)]
    Summarise(#[from] SummariseError),
    /// A result cannot be written.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The page cannot be drawn.
    #[error(transparent)]
    Html(#[from] html::HtmlError),
}

/// Computes everything from the raw files of a run and writes `latency.hlog`, `summary.json` and
/// `report.html` beside them. Doing it again changes not a byte.
///
/// The manifest must be in its last state (complete, with checksums) before: it is part of the
/// summary.
///
/// # Errors
/// When the manifest cannot be read or a file cannot be written.
pub fn conclude(run: &RunDir) -> Result<Summary, ReportError> {
    let analysis = analyse(run)?;
    write_atomically(run.place("latency.hlog"), &analysis.hlog)?;
    run.write_summary(&analysis.summary)?;
    html::write(run, &analysis.summary)?;
    Ok(analysis.summary)
}
