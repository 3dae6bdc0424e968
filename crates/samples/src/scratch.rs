//! A directory for one test, removed when the test ends, also when it fails.

use std::path::{Path, PathBuf};

/// A directory of its own below the system's temporary one.
pub struct Scratch(PathBuf);

impl Scratch {
    /// `name` keeps the tests of one process apart, the process id those of several.
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("latlab-samples-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
