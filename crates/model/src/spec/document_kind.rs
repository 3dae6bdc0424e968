//! The document that a text is.

use super::yaml::Yaml;

/// The document that a tree is. People name files as they like, so the content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Lab,
    Study,
    /// Machines with their controllers.
    Hosts,
}

impl DocumentKind {
    /// A study has one of the keys that only studies have, and not the one that only labs have. A file of hosts has them
    /// alone, and neither of the keys that every lab has.
    pub fn of(yaml: &Yaml) -> DocumentKind {
        let has = |key| yaml.get(key).is_some();
        if !has("topology") && ["lab", "measurements", "factors"].into_iter().any(has) {
            DocumentKind::Study
        } else if has("hosts") && !has("topology") && !has("name") {
            DocumentKind::Hosts
        } else {
            DocumentKind::Lab
        }
    }
}
