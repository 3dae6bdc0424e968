//! The description of a saved node.

use serde::{Deserialize, Serialize};

use crate::kinds::{Mac, NodeKind};
use crate::plan::NodePlan;

/// `snapshot.json` of a directory that holds a saved node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always [`Snapshot::FORMAT`].
    pub format: String,
    pub lab: String,
    #[serde(flatten)]
    pub saved_as: SavedAs,
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

/// The identity of a node when it was saved. A VM has it until its agent changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAs {
    pub node: String,
    /// Hardware addresses of its network cards, in their order.
    pub macs: Vec<Mac>,
}

impl SavedAs {
    pub fn of(node: &NodePlan) -> SavedAs {
        SavedAs {
            node: node.name.clone(),
            macs: node.interfaces.iter().map(|i| i.mac).collect(),
        }
    }
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
    pub const FORMAT: &'static str = "latlab.snapshot/2";
}
