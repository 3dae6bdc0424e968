//! Errors of opening a port.

use std::io;

use super::context::PortContext;

/// Why a port could not be opened. Nothing of it stays open.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{name}`: {reason}")]
pub struct OpenError {
    name: String,
    reason: String,
    hint: &'static str,
}

impl OpenError {
    #[must_use]
    pub fn hint(&self) -> String {
        self.hint.into()
    }

    pub(in crate::daemon) fn too_many(name: &str, max: u16) -> OpenError {
        OpenError {
            name: name.into(),
            reason: format!("there are {max} interfaces and links already"),
            hint: "delete some",
        }
    }

    pub(super) fn new(
        context: &PortContext<'_>,
        error: &io::Error,
        hint: &'static str,
    ) -> OpenError {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "the daemon has to run as root for this, and root has to be allowed by the file's own mode"
            }
            _ => hint,
        };
        OpenError::because(context, error.to_string(), hint)
    }

    pub(super) fn because(
        context: &PortContext<'_>,
        reason: String,
        hint: &'static str,
    ) -> OpenError {
        OpenError {
            name: context.name.into(),
            reason,
            hint,
        }
    }
}
