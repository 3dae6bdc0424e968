//! Why something could not be opened.

use std::io;

use super::Way;

/// Why a port could not be opened: nothing of it is open then.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{name}`: {reason}")]
pub struct Failed {
    name: String,
    reason: String,
    hint: &'static str,
}

impl Failed {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        self.hint.into()
    }

    pub(in crate::daemon) fn too_many(name: &str, most: u16) -> Failed {
        Failed {
            name: name.into(),
            reason: format!("there are {most} interfaces and links already"),
            hint: "delete some",
        }
    }

    pub(super) fn new(way: &Way<'_>, error: &io::Error, hint: &'static str) -> Failed {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "the daemon has to run as root for this, and root has to be allowed by the file's own mode"
            }
            _ => hint,
        };
        Failed::because(way, error.to_string(), hint)
    }

    pub(super) fn because(way: &Way<'_>, reason: String, hint: &'static str) -> Failed {
        Failed {
            name: way.name.into(),
            reason,
            hint,
        }
    }
}
