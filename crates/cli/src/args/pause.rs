//! Nodes that stop where they are, and go on.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Example: latlab pause pair server")]
pub struct Pause {
    /// Name of the lab.
    pub lab: String,
    /// Names of nodes; all but the host without any.
    pub nodes: Vec<String>,
}
