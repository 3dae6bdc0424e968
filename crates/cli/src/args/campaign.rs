//! Campaigns: a study over many machines.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::study::StudyOptions;
use crate::format::Format;

#[derive(Debug, Subcommand)]
pub enum Campaign {
    /// Divide a study into parts, and have them measured by the nodes of a Slurm cluster or over ssh.
    Submit(Submit),
    /// Show which parts are measured, run, wait or are lost.
    Status(Status),
    /// Submit the parts again that are neither measured nor in the queue.
    Resume(Directory),
    /// Remove a campaign's parts from Slurm's queue; what was measured stays.
    Cancel(Directory),
    /// Measure one part on this machine, as Slurm and ssh start it (needs root).
    #[command(hide = true)]
    Part(Part),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab campaign submit paths --nodes 4 -- --partition=lab --constraint=epyc
  latlab campaign submit paths --ssh root@a,root@b
  latlab campaign status runs/paths-20261128-101500-campaign
  latlab merge runs/paths-20261128-101500-campaign

With Slurm the parts are tasks of one array job, each with a node of its own. The directory of --runs must be on storage \
that all nodes share, and latlab must be installed on each. A job whose user is not root needs sudo without a password. \
With --ssh latlab waits for the parts and copies what they measured; after an interruption use `campaign resume`.")]
pub struct Submit {
    /// A study's file, or the name of one that comes with latlab (see `latlab studies`).
    pub study: String,
    /// Most nodes that measure at once; all that Slurm gives without it.
    #[arg(long, value_name = "N", conflicts_with = "ssh")]
    pub nodes: Option<u32>,
    /// Hosts that measure instead of Slurm's nodes, each one part after the other.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub ssh: Vec<String>,
    /// Number of parts; without it one for each deployment of a lab, the most there can be.
    #[arg(long, value_name = "N")]
    pub parts: Option<u32>,
    #[command(flatten)]
    pub options: StudyOptions,
    /// Directory in which the campaign's own directory is created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Plan for the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Path of latlab on the machines; without it this program's with Slurm, and `latlab` over ssh.
    #[arg(long, value_name = "PATH")]
    pub latlab: Option<PathBuf>,
    /// Only show the parts, and the command that would submit them.
    #[arg(long)]
    pub dry_run: bool,
    /// Options for `sbatch`.
    #[arg(last = true, value_name = "SBATCH_OPTION", conflicts_with = "ssh")]
    pub sbatch: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Status {
    /// The campaign's directory.
    pub campaign: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Directory {
    /// The campaign's directory.
    pub campaign: PathBuf,
}

#[derive(Debug, Args)]
pub struct Part {
    /// The campaign's directory.
    pub campaign: PathBuf,
    /// Number of the part, from 1.
    pub number: u32,
}
