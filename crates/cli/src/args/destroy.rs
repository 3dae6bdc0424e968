//! Destruction of labs.

use clap::Args;

#[derive(Debug, Args)]
pub struct Destroy {
    /// Names of labs.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub labs: Vec<String>,
    /// Every lab of this machine, including partially deployed ones, and every lab deployed from here onto hosts.
    #[arg(long, short)]
    pub all: bool,
    /// Only the parts on this machine, of labs on several hosts.
    #[arg(long)]
    pub here: bool,
    /// Skip confirmation.
    #[arg(long, short)]
    pub yes: bool,
}
