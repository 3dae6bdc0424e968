//! Root directories as nodes use them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::ImageConfig;
use super::error::Error;
use super::own_kernel::ImageKernel;

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
    pub config: ImageConfig,
    /// The kernel that belongs to it.
    #[serde(default)]
    pub kernel: Option<ImageKernel>,
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
            kernel: None,
        }
    }

    /// The same with what a search of the machine found covered.
    pub fn also_hiding(mut self, found: &[PathBuf]) -> Self {
        self.hidden.extend_from_slice(found);
        self.hidden.sort();
        self.hidden.dedup();
        self
    }

    /// The same with more of it covered: absolute paths, each of which is in the image without symbolic links on its
    /// way, since only the name that is covered would be out of reach.
    pub fn hiding(mut self, paths: &[String]) -> Result<Self, Error> {
        for path in paths.iter().map(Path::new) {
            let failed = |reason: String| Error::Hide {
                path: path.to_owned(),
                reason,
            };
            let mut inner = PathBuf::from("/");
            for part in path.strip_prefix("/").unwrap_or(path) {
                inner.push(part);
                let outer = self.dir.join(inner.strip_prefix("/").unwrap_or(&inner));
                let kind =
                    std::fs::symlink_metadata(outer).map_err(|error| failed(error.to_string()))?;
                if kind.is_symlink() {
                    let link = inner.display();
                    return Err(failed(format!(
                        "{link} is a symbolic link; name what it leads to"
                    )));
                }
            }
            if !self.hidden.contains(&inner) {
                self.hidden.push(inner);
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lab_hides_is_in_the_image_by_that_very_name() {
        let dir = std::env::temp_dir().join(format!("latlab-hide-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc/company")).unwrap();
        std::os::unix::fs::symlink("etc", dir.join("link")).unwrap();
        let view = RootView::plain(dir.clone(), ImageConfig::default());
        let hide = |path: &str| view.clone().hiding(&[path.to_owned(), path.to_owned()]);
        assert_eq!(
            hide("/etc/company").unwrap().hidden,
            [Path::new("/etc/company")]
        );
        let refused = |path: &str| hide(path).unwrap_err().to_string();
        assert_eq!(
            refused("/etc/absent"),
            "cannot hide /etc/absent: No such file or directory (os error 2)"
        );
        assert_eq!(
            refused("/link/company"),
            "cannot hide /link/company: /link is a symbolic link; name what it leads to"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }
}
