//! How a study is run instead of as its file says.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Options in the place of the study's own fields.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct StudyOptions {
    /// Number of replicates, instead of the study's.
    #[arg(long, value_name = "N")]
    pub replicates: Option<u32>,
    /// Seed, instead of the study's.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Most repetitions of a trial that others disturbed, instead of the study's (0 to 10).
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Leave out all tuning and isolation that the labs ask for, to measure their effect.
    #[arg(long)]
    pub no_isolation: bool,
}
