//! Steps of a guest's start, each with the words for its failure.

use std::io;

#[derive(Debug, thiserror::Error)]
#[error("{action}: {source}")]
pub struct StepError {
    action: String,
    source: io::Error,
}

impl From<StepError> for String {
    fn from(error: StepError) -> String {
        error.to_string()
    }
}

pub fn step<T, E: Into<io::Error>>(
    result: Result<T, E>,
    action: impl FnOnce() -> String,
) -> Result<T, StepError> {
    result.map_err(|source| StepError {
        action: action(),
        source: source.into(),
    })
}
