//! Progress of fetching packages and what is in them, for display.

use std::fmt;
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

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Downloading { package, .. } => write!(f, "downloading {package}"),
            Progress::Unpacking { package } => write!(f, "unpacking {package}"),
            Progress::Extracting { path } => write!(f, "extracting {}", path.display()),
        }
    }
}
