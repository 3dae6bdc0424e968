//! Directories of the host in a guest, over a share or as a file system image on a disk.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub source: PathBuf,
    /// Where it appears, absolute and without white space.
    pub target: String,
    pub access: Access,
    /// Paths below the directory that are empty for the guest.
    pub covered: Vec<PathBuf>,
    /// The image of the directory, where the guest has it on a disk.
    pub disk: Option<PathBuf>,
}

/// File system images of a guest that has its root on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestDisks {
    pub root: PathBuf,
    /// `lib/modules/RELEASE`, where the kernel has modules.
    pub modules: Option<PathBuf>,
}

/// A guest's rights in a directory of the host. The host's kernel enforces them, against the guest and its servers:
/// the mount is read-only and the server has no right to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read what every user of the host may read; what is mounted below does not show.
    Everybody,
    /// Read all of it, with what is mounted below.
    Read,
    /// Change it, as the host's root.
    Write,
}

impl Share {
    pub fn new(source: impl Into<PathBuf>, target: impl Into<String>, access: Access) -> Self {
        Self {
            source: source.into(),
            target: target.into(),
            access,
            covered: Vec::new(),
            disk: None,
        }
    }

    pub fn on_disk(self, disk: Option<PathBuf>) -> Self {
        Self { disk, ..self }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.access == Access::Write
    }
}
