//! Requests of the latlab that runs a study to those of its hosts.

use clap::{Args, Subcommand};

use super::pairs::{node_place, peer_key};

#[derive(Debug, Subcommand)]
pub enum Part {
    /// Plan this host's part of the lab on standard input, for a study; print plan and facts.
    Plan(PartPlan),
    /// Serve the command channel of a node on standard input and output.
    Attach {
        /// Name of the lab.
        lab: String,
        /// Name of the node.
        node: String,
    },
    /// Watch the machine until standard input ends; print what was seen.
    Watch {
        /// Name of the lab.
        lab: String,
    },
    /// Wait until the machine is quiet, for half a minute at most.
    Quiet {
        /// Name of the lab.
        lab: String,
    },
    /// Measure once, by the study on standard input; print the trial's files as an archive.
    Measure(PartMeasure),
}

#[derive(Debug, Args)]
pub struct PartPlan {
    /// This host's name in the lab.
    #[arg(long, value_name = "NAME")]
    pub host: String,
    /// Public key of another host of the lab, for sealed links (repeatable).
    #[arg(long, value_name = "HOST=KEY", value_parser = peer_key)]
    pub peer_key: Vec<(String, String)>,
    /// Host of a node that leaves the choice (repeatable).
    #[arg(long, value_name = "NODE=HOST", value_parser = node_place)]
    pub place: Vec<(String, String)>,
    /// Leave out all tuning and isolation that the lab asks for.
    #[arg(long)]
    pub no_isolation: bool,
    /// Also prove this capability (repeatable).
    #[arg(long, value_name = "NAME")]
    pub prove: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PartMeasure {
    /// Name of the lab.
    pub lab: String,
    /// Name of the measurement.
    #[arg(long, value_name = "NAME")]
    pub measurement: String,
    /// Number of the trial.
    #[arg(long, value_name = "N")]
    pub trial: u32,
    /// Identifier of its cell.
    #[arg(long, value_name = "ID")]
    pub cell: String,
    /// Its replicate.
    #[arg(long, value_name = "N")]
    pub replicate: u32,
    /// Seed of its traffic.
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Attempts before it.
    #[arg(long, value_name = "N", default_value_t)]
    pub repeats: u32,
    /// Length of the study's text. When standard input ends after it, the trial is given up.
    #[arg(long, value_name = "BYTES")]
    pub study_bytes: u64,
}
