//! Files to check.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Validate {
    /// Files to check: labs, studies (which have `measurements`), hosts with their controllers, images, or the ports
    /// and cables of this machine.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Plan for the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Print the diagnostics, or the plan when there are none, as JSON; of several files an array of them.
    #[arg(long)]
    pub json: bool,
}
