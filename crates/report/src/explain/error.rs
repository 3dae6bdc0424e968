use std::collections::BTreeMap;

use latlab_samples::{RunDirError, SamplesError};

#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error("{run} has no trial through taps{which}")]
    Nothing {
        run: String,
        which: String,
        /// Such trials by their cells.
        trials: BTreeMap<String, Vec<u32>>,
    },
}
