//! Comparison of two runs.

use std::path::PathBuf;

use clap::Args;
use latlab_report::limit::Limit;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab compare runs/quick-A runs/quick-B
  latlab compare runs/quick-A runs/quick-B --fail-if 'p99 > 1.10' --fail-if 'median > 1.05'

The exit code is 1 if a difference was found. With --fail-if it is 1 only if a ratio of the second run to the first is \
beyond a limit, with its whole 95 % interval. A quantity is median, sd, or a percentile such as p99.9; the median of a \
metric is its value.")]
pub struct Compare {
    /// The run to compare against.
    pub before: PathBuf,
    /// The run to judge.
    pub after: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Compare even if the machines differ.
    #[arg(long)]
    pub force: bool,
    /// Fail only if a ratio is beyond this limit, for example 'p99 > 1.10' (repeatable).
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Vec<Limit>,
}
