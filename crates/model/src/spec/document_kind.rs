//! Which of the two documents a text is.

use super::yaml::Yaml;

/// Which of the two documents a tree is. People name files as they like, so the content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Lab,
    Study,
}

impl DocumentKind {
    /// A study has one of the keys that only studies have, and not the one that only labs have.
    pub fn of(yaml: &Yaml) -> DocumentKind {
        let has = |key| yaml.get(key).is_some();
        if !has("topology") && ["lab", "measurements", "factors"].into_iter().any(has) {
            DocumentKind::Study
        } else {
            DocumentKind::Lab
        }
    }
}
