//! Errors of images.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image {} is neither `host`, nor a directory, nor an archive", .0.display())]
    NotFound(PathBuf),
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A path that a lab hides is not in the image, or not by that name.
    #[error("cannot hide {}: {reason}", path.display())]
    Hide { path: PathBuf, reason: String },
    #[error("cannot make a disk image of {}: {reason}", directory.display())]
    Disk { directory: PathBuf, reason: String },
    #[error("archive {}: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
