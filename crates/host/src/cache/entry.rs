//! Entries of the cache.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Image,
    Disk,
    Kernel,
    Initramfs,
    Template,
    /// A program of another release, which was fetched because the machine's own is too old.
    Program,
    /// Left by a latlab that was killed.
    Rest,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Image => "image",
            Kind::Disk => "disk",
            Kind::Kernel => "kernel",
            Kind::Initramfs => "initramfs",
            Kind::Template => "template",
            Kind::Program => "program",
            Kind::Rest => "rest",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub name: String,
    pub path: PathBuf,
    /// Bytes on the disk.
    pub bytes: u64,
    pub used: SystemTime,
    /// Names of the deployed labs that use it.
    pub labs: Vec<String>,
}

impl Entry {
    /// When it was used last: RFC 3339, UTC.
    pub fn used_at(&self) -> String {
        let time = jiff::Timestamp::try_from(self.used).unwrap_or_default();
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// The entries that a deployed lab uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabUse {
    pub lab: String,
    /// Paths in the cache; none of a lab that does not tell, which may use all.
    pub paths: Option<Vec<PathBuf>>,
}

impl LabUse {
    pub(super) fn has(&self, kind: Kind, entry: &Path) -> bool {
        match &self.paths {
            Some(paths) => paths.iter().any(|path| path.starts_with(entry)),
            None => !matches!(kind, Kind::Rest | Kind::Program),
        }
    }
}
