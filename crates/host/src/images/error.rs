//! Errors of images.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image {} is neither `host`, nor a directory, nor a file", .0.display())]
    NotFound(PathBuf),
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// A path that a lab hides is not in the image, or not by that name.
    #[error("cannot hide {}: {reason}", path.display())]
    Hide { path: PathBuf, reason: String },
    #[error("cannot make a disk image of {}: {reason}", directory.display())]
    Disk { directory: PathBuf, reason: String },
    /// A description of an image with mistakes: each with its place.
    #[error("{mistakes}", mistakes = mistakes.trim_end())]
    Recipe { path: PathBuf, mistakes: String },
    #[error("cannot make the image {place}: {reason}")]
    Making { place: String, reason: String },
    #[error("cannot write the archive: {} is no file", .0.display())]
    NoFile(PathBuf),
    #[error("archive {}: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
}

impl Error {
    /// Advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Hide { .. } => "`hide` takes paths as the image has them",
            Self::Recipe { .. } => "`latlab image --help` shows what a description of an image has",
            Self::NoFile(_) => "name a file; `--output` replaces it with the archive",
            Self::Making { .. } => "the package mmdebstrap makes images; what it began is removed",
            _ => {
                "an image is `host`, a directory, an OCI archive (.tar), or a list of packages (.yaml, or in the lab)"
            }
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let failed = sys::Error::of(action, path.display());
        |source: io::Error| Self::Sys(failed(source))
    }
}
