//! A node of which something was begun and cut off: a latlab that was killed can leave it at two places, or standing
//! still. Its driver finds by evidence where it goes on; nothing is guessed.

use crate::sys::process::ProcessId;

/// The begun work with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Act {
    Move,
    Save,
    Restore,
}

/// The place where a node goes on. The other one has ended, or stands still until it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// As if nothing had been begun.
    Before,
    /// As if all was done, in this process.
    After(ProcessId),
}
