//! Progress of finding a kernel, for display.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A package is being downloaded.
    Downloading {
        package: String,
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all, if known.
        total_bytes: Option<u64>,
    },
    /// A package is being unpacked.
    Unpacking { package: String },
    /// The bare kernel is being taken out of its wrapper.
    Extracting { path: PathBuf },
}
