//! Deployment of a lab.

use std::path::PathBuf;

use clap::Args;

use super::pairs::{node_place, peer_key};
use crate::format::Format;

#[derive(Debug, Args)]
pub struct Deploy {
    /// The lab's file, or `-` for standard input.
    pub lab: PathBuf,
    /// Deploy only the part of this host of the lab. `latlab deploy` calls this on each host by itself.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Public key of another host of the lab, for sealed links (repeatable). `latlab deploy` gives them by itself.
    #[arg(long, value_name = "HOST=KEY", requires = "host", value_parser = peer_key)]
    pub peer_key: Vec<(String, String)>,
    /// Host of a node that leaves the choice (repeatable). `latlab deploy` chooses by itself.
    #[arg(long, value_name = "NODE=HOST", requires = "host", value_parser = node_place)]
    pub place: Vec<(String, String)>,
    /// If something fails, leave the nodes up for inspection instead of destroying them.
    #[arg(long)]
    pub keep: bool,
    /// Start at most this many nodes at once [default: per CPU one with VMs, four without].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Output format of the deployed nodes.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Leave out all tuning and isolation that the lab asks for.
    #[arg(long)]
    pub no_isolation: bool,
    /// Only show what would be created.
    #[arg(long)]
    pub dry_run: bool,
}
