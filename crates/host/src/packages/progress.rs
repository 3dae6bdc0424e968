//! Progress of fetching packages and what is in them, for display.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Downloading {
        package: String,
        bytes: u64,
        total_bytes: Option<u64>,
    },
    Unpacking {
        package: String,
    },
    Extracting {
        path: PathBuf,
    },
}
