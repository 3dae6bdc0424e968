//! Locks of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Error;
use crate::sys::file::Lock;

const IN_USE: &str = "in-use.lock";
/// Entries are removed within minutes, also large ones.
const TIMEOUT: Duration = Duration::from_secs(900);

/// While it is held, no entry is removed.
#[derive(Debug)]
pub struct InUse {
    _lock: Lock,
}

impl InUse {
    /// Waits for one who removes entries now.
    pub fn share(cache: &Path) -> Result<InUse, Error> {
        fs::create_dir_all(cache).map_err(Error::io("make", cache))?;
        let path = cache.join(IN_USE);
        match Lock::share(&path, TIMEOUT)? {
            Some(lock) => Ok(InUse { _lock: lock }),
            None => Err(Error::Busy(path)),
        }
    }
}

/// No other process takes or adds an entry while these are held. Fails when one still does after `timeout`.
pub(super) fn alone(cache: &Path, timeout: Duration) -> Result<Vec<Lock>, Error> {
    let mut held = Vec::new();
    let mut take = |path: PathBuf| {
        // Without the place no process works in it.
        if path.parent().is_some_and(Path::is_dir) {
            let lock = Lock::take(&path, timeout)?;
            held.push(lock.ok_or(Error::Busy(path))?);
        }
        Ok::<_, Error>(())
    };
    take(cache.join(IN_USE))?;
    // Proofs write beside the entries.
    for proof in ["accelerator.lock", "criu.lock"] {
        take(cache.join(proof))?;
    }
    for place in ["disks", "kernels", "templates"] {
        take(cache.join(place).join("lock"))?;
    }
    let programs = fs::read_dir(cache.join("borrowed"));
    for program in programs.into_iter().flatten().flatten() {
        take(program.path().join("lock"))?;
    }
    let images = cache.join("images");
    take(images.join("recipes/.lock"))?;
    if images.is_dir() {
        let lock = Lock::take_directory(&images, timeout)?;
        held.push(lock.ok_or(Error::Busy(images))?);
    }
    Ok(held)
}
