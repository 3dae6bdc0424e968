//! Nodes of deployed labs.

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
pub struct Inspect {
    /// Name of a lab [default: all labs].
    pub lab: Option<String>,
    /// Only what is on this machine, of labs on several hosts too.
    #[arg(long)]
    pub here: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}
