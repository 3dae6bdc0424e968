//! Root directories as nodes use them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::config::ImageConfig;

/// A root directory ready to be used, read-only, as the lower layer of a container or exported to
/// a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootView {
    pub dir: PathBuf,
    /// File systems mounted below `dir` that belong to the image, outer before inner. An overlay
    /// of `dir` shows only the empty mount points, so each needs to be brought along.
    pub submounts: Vec<PathBuf>,
    /// Directories that start empty in every node, as seen inside: what describes the machine's
    /// present boot is not part of its image.
    pub fresh: Vec<PathBuf>,
    /// Files and directories that are to be covered, as seen inside: what is not for every user of the machine.
    pub hidden: Vec<PathBuf>,
    /// Whether these are the machine's own files, of which a node gets what every user of the machine may read.
    pub of_host: bool,
    /// The image's defaults for processes.
    pub config: ImageConfig,
}

impl RootView {
    /// A directory with nothing mounted below it and nothing to hide in it.
    pub(super) fn plain(dir: PathBuf, config: ImageConfig) -> Self {
        Self {
            dir,
            submounts: Vec::new(),
            fresh: Vec::new(),
            hidden: Vec::new(),
            of_host: false,
            config,
        }
    }
}
