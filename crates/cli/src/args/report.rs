//! The summary of a run.

use std::path::PathBuf;

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
pub struct Report {
    /// The run directory.
    pub run: PathBuf,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Do not write summary.json, latency.hlog and report.html; only print.
    #[arg(long)]
    pub print_only: bool,
}
