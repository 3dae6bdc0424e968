//! The document that a text is.

use super::machine_file::MachineFile;
use super::recipe::Distribution;
use super::yaml::Yaml;

/// The document that a tree is. People name files as they like, so the content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Lab,
    Study,
    /// Machines with their controllers.
    Hosts,
    /// An image that is made from packages.
    Image,
    /// The ports and cables of a machine.
    Machine,
}

impl DocumentKind {
    /// A study has one of the keys that only studies have, and not the one that only labs have. A file of hosts has them
    /// alone, and neither of the keys that every lab has. An image has the key that names its distribution, and the file of a
    /// machine names ports.
    pub fn of(yaml: &Yaml) -> DocumentKind {
        let has = |key| yaml.get(key).is_some();
        if !has("topology") && ["lab", "measurements", "factors"].into_iter().any(has) {
            DocumentKind::Study
        } else if has("hosts") && !has("topology") && !has("name") {
            DocumentKind::Hosts
        } else if Distribution::KEYS.into_iter().any(has) && !has("topology") {
            DocumentKind::Image
        } else if MachineFile::KEYS.into_iter().any(has) && !has("topology") && !has("name") {
            DocumentKind::Machine
        } else {
            DocumentKind::Lab
        }
    }
}
