//! Notes and tags that people write on a run. Nothing is computed from them.

use serde::{Deserialize, Serialize};

/// `annotation.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Always [`Annotation::FORMAT`].
    pub format: String,
    pub note: String,
    pub tags: Vec<String>,
}

impl Annotation {
    pub const FORMAT: &'static str = "latlab.annotation/1";
}

impl Default for Annotation {
    /// That of a run on which nothing was written.
    fn default() -> Self {
        Self {
            format: Self::FORMAT.to_owned(),
            note: String::new(),
            tags: Vec::new(),
        }
    }
}
