//! Unpacked images, each under the digest that names it.
//!
//! ```text
//! <cache>/<digest>/rootfs     complete and never changed again
//! <cache>/.unpack-<digest>    under way, or left by a process that died
//! ```
//!
//! An image appears by one rename, so a process sees all of it or nothing. A lock on the cache's
//! directory lets one process unpack at a time; it goes with the process, however that ends.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::archive::Archive;
use super::budget::Budget;
use super::codec::{Hashing, decompress};
use super::config::ImageConfig;
use super::error::Error;
use super::layer;
use super::manifest::{self, Found, LayerRef};
use crate::sys::file::rename_synced;
use crate::sys::{cached, tree};

/// Begins the name of a directory in which an image is unpacked.
const UNPACKING: &str = ".unpack-";

/// The most that may follow the last member of a layer: zeroes up to the end of a tape's record.
const MAX_PADDING_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// A cache in `dir`, which is made when it is first needed.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The root directory of the empty image. Kernels' modules and binds have their mount points made by each node.
    pub(super) fn empty(&self) -> Result<PathBuf, Error> {
        self.make_dir()?;
        let dir = self.dir.join("empty");
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&dir);
        made.map_err(Error::io("make", &dir))?;
        Ok(dir)
    }

    /// The root directory and configuration of the image in the archive `file`, unpacked now if it
    /// was not before.
    pub(super) fn unpack(&self, file: &Path) -> Result<(PathBuf, ImageConfig), Error> {
        let reason = |reason| Error::Archive {
            path: file.to_owned(),
            reason,
        };
        let source = File::open(file).map_err(Error::io("open archive", file))?;
        let mut archive = Archive::read(source).map_err(reason)?;
        let found = manifest::find(&mut archive).map_err(reason)?;
        let name = manifest::hex(&found.digest).map_err(reason)?;
        let ready = self.dir.join(name);
        // Another latlab may remove it meanwhile, as one that was not used for long.
        if cached::mark_used(&ready).is_err() {
            let _lock = self.lock()?;
            if !ready.exists() {
                self.unpack_new(&mut archive, &found, &ready, name, file)?;
            }
        }
        Ok((ready.join("rootfs"), found.config))
    }

    /// Unpacks into a temporary directory and renames it; to be called under the lock.
    fn unpack_new(
        &self,
        archive: &mut Archive<File>,
        found: &Found,
        ready: &Path,
        name: &str,
        file: &Path,
    ) -> Result<(), Error> {
        self.sweep(UNPACKING)?;
        let work = self.dir.join(format!("{UNPACKING}{name}"));
        let root_path = work.join("rootfs");
        fs::create_dir_all(&root_path).map_err(Error::io("make", &root_path))?;
        let root = open_directory(&root_path)?;
        let mut budget = Budget::in_free_space(&root_path)?;
        let result = found
            .layers
            .iter()
            .try_for_each(|layer| unpack_layer(archive, layer, &root, &mut budget));
        if let Err(reason) = result {
            // The reason matters more than a rest that the next attempt removes.
            let _ = remove_all(&work);
            return Err(Error::Archive {
                path: file.to_owned(),
                reason,
            });
        }
        rename_synced(&work, ready).map_err(Error::io("move into place", ready))
    }

    /// Removes what processes left that died at work, by the beginning of its name; to be called under the lock of such works.
    pub(super) fn sweep(&self, beginning: &str) -> Result<(), Error> {
        let entries = fs::read_dir(&self.dir).map_err(Error::io("list", &self.dir))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.as_bytes().starts_with(beginning.as_bytes()) {
                remove_all(&entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes its directory. The mode keeps set-user-id programs of images from other users of the host.
    pub(super) fn make_dir(&self) -> Result<(), Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(Error::io("make", &self.dir))
    }

    /// Waits for its turn.
    fn lock(&self) -> Result<OwnedFd, Error> {
        self.make_dir()?;
        let dir = open_directory(&self.dir)?;
        rustix::fs::flock(&dir, FlockOperation::LockExclusive)
            .map_err(|e| Error::io("lock", &self.dir)(e.into()))?;
        Ok(dir)
    }
}

pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| Error::io("open", path)(e.into()))
}

pub(super) fn remove_all(path: &Path) -> Result<(), Error> {
    tree::remove(path).map_err(Error::io("remove", path))
}

fn unpack_layer(
    archive: &mut Archive<File>,
    layer: &LayerRef,
    root: &OwnedFd,
    budget: &mut Budget,
) -> Result<(), String> {
    // The second reading costs what the first one did, unless the file has changed meanwhile.
    let mut again = budget.clone();
    let whiteouts = verify(archive, layer, budget)?;
    layer::remove(root.as_fd(), &whiteouts)?;
    let source = decompress(archive.open(&layer.member)?).map_err(|e| e.to_string())?;
    extract_verified(root, source, &layer.diff_id, &mut again)
}

/// Second reading of a layer. The file may have been changed since the first one.
fn extract_verified(
    root: &OwnedFd,
    source: impl Read,
    diff_id: &str,
    budget: &mut Budget,
) -> Result<(), String> {
    let mut unpacked = Hashing::new(source);
    layer::extract(root.as_fd(), &mut unpacked, budget)?;
    let read = unpacked.finish(MAX_PADDING_BYTES);
    if read.map_err(|error| error.to_string())? == diff_id {
        Ok(())
    } else {
        Err(format!("layer {diff_id} changed while it was read"))
    }
}

/// First reading of a layer: both its digests are right, and these are its whiteouts.
fn verify(
    archive: &mut Archive<File>,
    layer: &LayerRef,
    budget: &mut Budget,
) -> Result<Vec<layer::Whiteout>, String> {
    let damaged = |e: io::Error| format!("layer `{}`: {e}", layer.member);
    let mut packed = Hashing::new(archive.open(&layer.member)?);
    let mut unpacked = Hashing::new(decompress(&mut packed).map_err(damaged)?);
    let whiteouts =
        layer::scan(&mut unpacked, budget).map_err(|e| format!("layer `{}`: {e}", layer.member))?;
    let diff_id = unpacked.finish(MAX_PADDING_BYTES).map_err(damaged)?;
    if diff_id != layer.diff_id {
        return Err(format!(
            "layer {} unpacks to digest {diff_id}",
            layer.diff_id
        ));
    }
    // No more than the archive itself is long.
    let digest = packed.finish(u64::MAX).map_err(damaged)?;
    match &layer.digest {
        Some(expected) if *expected != digest => {
            Err(format!("layer {expected} has digest {digest}"))
        }
        _ => Ok(whiteouts),
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
