//! Images: the root directory a container or virtual machine starts from.
//!
//! A node's `image` is one of three things, and all three end as a directory that is only ever
//! read ([`RootView`]); the writable layer on top belongs to the node.
//!
//! - `host`, the default: the machine's own root. The same programs run natively, in the container
//!   and in the virtual machine, and a first run downloads nothing.
//! - a directory.
//! - an archive of an OCI image, as `skopeo copy docker://... oci-archive:FILE` and
//!   `podman save --format oci-archive` write it, or what `docker save` writes. It is unpacked once
//!   into a cache, under the digest of its manifest.
//!
//! Archives come from elsewhere, so every byte that enters the cache has been compared with the
//! digest that names it, every path of a layer is resolved inside the image's root, and nothing is
//! read or written beyond a budget.

mod archive;
mod budget;
mod cache;
mod codec;
mod host;
mod layer;
mod manifest;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use cache::Cache;
pub use manifest::ImageConfig;

/// What was wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image is neither `host`, nor a directory, nor a file.
    #[error("image {} is neither `host`, nor a directory, nor an archive", .0.display())]
    NotFound(PathBuf),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, in the infinitive.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// What a lab hides is not in the image, or not by that name.
    #[error("cannot hide {}: {reason}", path.display())]
    Hide {
        /// The path, as the lab names it.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The archive is damaged or not an image.
    #[error("archive {}: {reason}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong in it.
        reason: String,
    },
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// Where a root directory comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Image {
    /// The machine's own root.
    Host,
    /// A directory.
    Directory(PathBuf),
    /// A file: an archive of an OCI image.
    Archive(PathBuf),
}

impl Image {
    /// Understands the `image` of a lab. A relative path is taken from `base`, the directory of
    /// the lab's file.
    pub fn find(text: &str, base: &Path) -> Result<Self, Error> {
        if text == "host" {
            return Ok(Self::Host);
        }
        let path = base.join(text);
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self::Directory(path)),
            Ok(found) if found.is_file() => Ok(Self::Archive(path)),
            Ok(_) => Err(Error::NotFound(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotFound(path)),
            Err(e) => Err(Error::io("look at image", &path)(e)),
        }
    }
}

/// A root directory ready to be used, read-only, as the lower layer of a container or exported to
/// a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootView {
    /// The directory.
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
    /// What the image says about the processes started in it.
    pub config: ImageConfig,
}

/// Makes `image` usable. Work is needed only for an archive that is not in the cache yet.
pub fn prepare(image: &Image, cache: &Cache) -> Result<RootView, Error> {
    match image {
        Image::Host => host::view(),
        Image::Directory(dir) => {
            let dir = std::fs::canonicalize(dir).map_err(Error::io("use image", dir))?;
            Ok(RootView::plain(dir, ImageConfig::default()))
        }
        Image::Archive(file) => {
            let (dir, config) = cache.unpack(file)?;
            Ok(RootView::plain(dir, config))
        }
    }
}

impl RootView {
    /// A directory with nothing mounted below it and nothing to hide in it.
    fn plain(dir: PathBuf, config: ImageConfig) -> Self {
        Self {
            dir,
            submounts: Vec::new(),
            fresh: Vec::new(),
            hidden: Vec::new(),
            of_host: false,
            config,
        }
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

/// Entry points for fuzzing: each takes any bytes and must neither panic nor hang.
pub mod fuzz {
    use std::io::Cursor;

    /// The bytes as an archive: its table of contents and its documents.
    pub fn archive(bytes: &[u8]) {
        if let Ok(mut archive) = super::archive::Archive::read(Cursor::new(bytes)) {
            let _ = super::manifest::find(&mut archive);
        }
    }

    /// The bytes as a compressed layer, up to the list of what it would change.
    pub fn layer(bytes: &[u8]) {
        let mut budget = super::budget::Budget::of_bytes(1 << 30);
        let layer = super::codec::decompress(Cursor::new(bytes));
        let _ = layer.map(|layer| super::layer::scan(layer, &mut budget));
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

    #[test]
    fn an_image_is_host_a_directory_or_a_file() {
        let base = std::env::temp_dir();
        assert_eq!(Image::find("host", &base).unwrap(), Image::Host);
        assert_eq!(
            Image::find(".", &base).unwrap(),
            Image::Directory(base.join("."))
        );
        let file = base.join(format!("latlab-image-{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            Image::find(name, &base).unwrap(),
            Image::Archive(file.clone())
        );
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(Image::find(name, &base), Err(Error::NotFound(_))));
        assert!(matches!(
            Image::find("/dev/null", &base),
            Err(Error::NotFound(_))
        ));
    }
}
