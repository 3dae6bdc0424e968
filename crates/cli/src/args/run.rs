//! A run of a study.

use std::path::PathBuf;

use clap::Args;
use latlab_model::plan::PartNumber;

use super::parts::part_number;
use super::study::StudyOptions;
use crate::format::Format;

#[derive(Debug, Default, Args)]
#[command(
    after_help = "Example: latlab run first-light\n         latlab run studies/paths.yaml --runs /tmp/runs"
)]
pub struct Run {
    /// A study's file, or the name of one that comes with latlab (see `latlab studies`).
    pub study: String,
    /// Directory in which the run's own directory is created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub options: StudyOptions,
    /// If a trial fails, stop and leave its lab up for inspection.
    #[arg(long)]
    pub keep: bool,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Only this part of the run, for example 2/4; `latlab merge` joins the parts.
    #[arg(long, value_name = "K/N", value_parser = part_number)]
    pub part: Option<PartNumber>,
    /// Read temperature and power of this host by its controller, before and after each trial (repeatable).
    #[arg(long, value_name = "HOST")]
    pub sensors: Vec<String>,
    /// The file of such hosts (see `latlab host --help`).
    #[arg(
        long,
        env = "LATLAB_HOSTS",
        value_name = "FILE",
        default_value = "hosts.yaml"
    )]
    pub hosts: PathBuf,
    /// Only show the trials in their order.
    #[arg(long)]
    pub dry_run: bool,
}
