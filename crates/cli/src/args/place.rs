//! Placement of a lab on CPUs and memory.

use std::path::PathBuf;

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab place labs/isolated.yaml
  latlab doctor --format json > machine.json    (on the machine in question)
  latlab place labs/isolated.yaml --facts machine.json --format json

With `cpus: 3, isolate: true` a node asks for dedicated cores, and with `tuning: isolated` for a share of \
cores that the host does not use. Needs no root.")]
pub struct Place {
    /// The lab's file.
    pub lab: PathBuf,
    /// Place it on the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
