//! Runs in parts.

use std::path::PathBuf;

use clap::Args;
use latlab_model::plan::PartNumber;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab run paths --part 1/2        (on one machine)
  latlab run paths --part 2/2        (on the other, or later)
  latlab merge runs/paths-20261127-101500 runs/paths-20261127-104200

Parts that several machines measured make the machine a factor of the run. Needs no root.")]
pub struct Merge {
    /// The run directories of the parts, in any order, or a campaign's directory. A part that was interrupted is passed over
    /// if it is there whole.
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// Directory in which the merged run's own directory is created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Merge also when parts are missing or stopped early. The run is then marked incomplete.
    #[arg(long)]
    pub incomplete: bool,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Parses the number of a part, such as `2/4`.
pub(super) fn part_number(text: &str) -> Result<PartNumber, String> {
    let numbers = text.split_once('/');
    let numbers = numbers.and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((number, of)) if (1..=of).contains(&number) => Ok(PartNumber { number, of }),
        _ => Err("a part is K/N, its number and how many there are, for example 2/4".into()),
    }
}
