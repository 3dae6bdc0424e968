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
        /// The cells that have such trials.
        cells: Vec<String>,
    },
}
