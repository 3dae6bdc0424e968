//! Papers whose figures are measured again.

use std::path::PathBuf;

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab paper                              the papers, and the studies of each
  latlab paper dhar2016 --quick             run its studies with three replicates (needs root)
  latlab paper dhar2016 --from runs/boot-…  no run: compare what was measured before

Only ratios to the first column are compared: absolute figures of two machines say nothing about each other. \
A published ratio says more, less, or the same within 5 %. It holds if the whole 95 % interval of the ratio \
here says the same. An emulated VM tells nothing of a real one.")]
pub struct Paper {
    /// The paper; without it, all of them are listed.
    pub name: Option<String>,
    /// Three replicates instead of each study's own number.
    #[arg(long, requires = "name")]
    pub quick: bool,
    /// Number of replicates, instead of each study's own.
    #[arg(long, value_name = "N", requires = "name", conflicts_with = "quick")]
    pub replicates: Option<u32>,
    /// Directory in which the runs' own directories are created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Run directories to compare; nothing is measured.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "name")]
    pub from: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
