//! The description of a saved node.

use serde::{Deserialize, Serialize};

use crate::kinds::NodeKind;

/// `snapshot.json` of a directory that holds a saved node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always [`Snapshot::FORMAT`].
    pub format: String,
    pub lab: String,
    pub node: String,
    pub kind: NodeKind,
    /// RFC 3339, UTC.
    pub saved: String,
    /// The machine that the node ran on, in words: it goes on only where they are the same.
    pub machine: String,
    pub files: Vec<SavedFile>,
    /// How long the node stood still to be saved, in nanoseconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ns: Option<u64>,
}

/// A file beside the description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    pub name: String,
    pub bytes: u64,
    /// Digest of its content, in hexadecimal digits.
    pub sha256: String,
}

impl Snapshot {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.snapshot/1";
}
