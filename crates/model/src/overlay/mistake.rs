//! A mistake in a line.

use super::change::Refusal;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{column}: {message}")]
pub struct Mistake {
    /// Where, from 1, in characters.
    pub column: usize,
    pub message: String,
    pub hint: String,
}

impl Mistake {
    pub(super) fn new(
        column: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Mistake {
        Mistake {
            column,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<(usize, Refusal)> for Mistake {
    fn from((column, refusal): (usize, Refusal)) -> Mistake {
        Mistake::new(column, refusal.message, refusal.hint)
    }
}
