//! Labs for other tools.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::conversion::Output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab export labs/pair.yaml --to containerlab --image debian:13 -o pair.clab.yml
  latlab export lab.yaml --to containerlab > lab.clab.yml             (differences: standard error)

Addresses, MTUs and the containers' only process are written out, so that containerlab makes the same network. \
VMs and links without an equivalent are left out, and the exit code is 1 then. Needs no root.")]
pub struct Export {
    /// The lab's file.
    pub lab: PathBuf,
    /// The tool that is to read it.
    #[arg(long, value_enum)]
    pub to: Tool,
    /// Image of native nodes, and of containers with the host's files or those of a directory.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Tool {
    /// A topology, `*.clab.yml`.
    Containerlab,
}
