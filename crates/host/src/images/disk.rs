//! File system images of directories: what a virtual machine has on a disk instead of over a share.
//!
//! The format is squashfs without compression. A guest's reads are then copies out of the host's page cache, which all
//! guests with the same image share. An image's name in the cache is a digest of the directory's listing: names, kinds,
//! modes, owners, sizes and times of last change (mtime and ctime). A directory that changed gets another image, the same one is made once.
//! None goes while a lab is deployed: the bounds of the cache are kept before (`cache/clean.rs`).

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::error::Error;
use super::squashfs;
use crate::hex;
use crate::sys::cached;
use crate::sys::file::Lock;

/// Directory of the cache.
const DIRECTORY: &str = "disks";
/// Another latlab that writes one is waited for this long.
const TIMEOUT: Duration = Duration::from_secs(900);

/// File system images in the cache.
pub struct Disks {
    dir: PathBuf,
}

impl Disks {
    pub fn new(cache: &Path) -> Self {
        Self {
            dir: cache.join(DIRECTORY),
        }
    }

    /// The image of a directory, without the paths `hidden` in it (absolute, as seen inside). `progress` is told before
    /// one is made.
    pub fn of(
        &self,
        directory: &Path,
        hidden: &[PathBuf],
        progress: &dyn Fn(&str),
    ) -> Result<PathBuf, Error> {
        let listing = Listing::of(directory, hidden)?;
        let path = self.dir.join(format!("{}.squashfs", listing.name()));
        if cached::mark_used(&path).is_ok() {
            return Ok(path);
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(Error::io("make", &self.dir))?;
        let lock = Lock::take(&self.dir.join("lock"), TIMEOUT)
            .map_err(|error| Error::io("lock", &self.dir)(io::Error::other(error)))?;
        let _lock =
            lock.ok_or_else(|| Error::io("lock", &self.dir)(io::ErrorKind::TimedOut.into()))?;
        if cached::mark_used(&path).is_ok() {
            return Ok(path);
        }
        let refused = |reason: String| Error::Disk {
            directory: directory.to_owned(),
            reason,
        };
        let free = free_bytes(&self.dir)?;
        if listing.bytes > free {
            let (bytes, free) = (listing.bytes >> 20, free >> 20);
            let dir = self.dir.display();
            return Err(refused(format!(
                "its files have {bytes} MiB, and {free} MiB are free in {dir}"
            )));
        }
        progress(&format!("making a disk image of {}", directory.display()));
        let new = path.with_extension("new");
        let made = squashfs::write(directory, &new, &listing.hidden, squashfs::PLAIN)
            .and_then(|()| File::open(&new)?.sync_all())
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = made {
            // The rest takes room only, and the next attempt removes it.
            let _ = fs::remove_file(&new);
            return Err(refused(error.to_string()));
        }
        Ok(path)
    }
}

fn free_bytes(dir: &Path) -> Result<u64, Error> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| Error::io("look at", dir)(e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The part of a directory that its image depends on.
struct Listing<'a> {
    hidden: Vec<PathBuf>,
    top: &'a Path,
    digest: Sha256,
    bytes: u64,
}

impl<'a> Listing<'a> {
    fn of(top: &'a Path, hidden: &[PathBuf]) -> Result<Self, Error> {
        let inside = |path: &PathBuf| top.join(path.strip_prefix("/").unwrap_or(path));
        let mut listing = Listing {
            hidden: hidden.iter().map(inside).collect(),
            top,
            digest: Sha256::new(),
            bytes: 0,
        };
        let found = fs::symlink_metadata(top).map_err(Error::io("look at", top))?;
        listing.add(top, &found)?;
        Ok(listing)
    }

    fn add(&mut self, path: &Path, found: &Metadata) -> Result<(), Error> {
        let name = path.strip_prefix(self.top).unwrap_or(path);
        self.digest.update(name.as_os_str().as_bytes());
        let numbers = [
            u64::from(found.mode()),
            u64::from(found.uid()),
            u64::from(found.gid()),
            found.rdev(),
            // The size of a directory depends on its file system.
            if found.is_dir() { 0 } else { found.size() },
            found.mtime() as u64,
            found.mtime_nsec() as u64,
            // Programs that copy set the time of change of the bytes back. That of the file itself only the kernel sets.
            found.ctime() as u64,
            found.ctime_nsec() as u64,
        ];
        self.digest.update([0]);
        numbers
            .iter()
            .for_each(|number| self.digest.update(number.to_le_bytes()));
        if found.is_symlink() {
            let target = fs::read_link(path).map_err(Error::io("read", path))?;
            self.digest.update(target.as_os_str().as_bytes());
        }
        if found.is_file() {
            self.bytes += found.size();
        }
        if !found.is_dir() {
            return Ok(());
        }
        let entries = fs::read_dir(path).map_err(Error::io("list", path))?;
        let mut inner: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(Error::io("list", path))?;
        inner.sort();
        for path in &inner {
            if self.hidden.contains(path) {
                continue;
            }
            let found = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
            self.add(path, &found)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        hex::digits(&self.digest.clone().finalize()[..16])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-disk-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("tree/etc")).unwrap();
        fs::write(dir.join("tree/etc/passwd"), "root").unwrap();
        fs::write(dir.join("tree/secret"), "secret").unwrap();
        dir
    }

    fn name_of(dir: &Path, hidden: &[PathBuf]) -> String {
        Listing::of(&dir.join("tree"), hidden).unwrap().name()
    }

    #[test]
    fn a_listing_changes_with_its_directory_and_not_with_what_is_hidden() {
        let dir = tree("listing");
        let first = name_of(&dir, &[]);
        assert_eq!(name_of(&dir, &[]), first);
        let hidden = [PathBuf::from("/secret")];
        let without = name_of(&dir, &hidden);
        assert_ne!(without, first);
        fs::write(dir.join("tree/secret"), "another").unwrap();
        assert_eq!(name_of(&dir, &hidden), without);
        assert_ne!(name_of(&dir, &[]), first);
        fs::write(dir.join("tree/etc/passwd"), "longer").unwrap();
        assert_ne!(name_of(&dir, &hidden), without);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_of_equal_length_and_with_its_time_set_back_is_another() {
        let dir = tree("set-back");
        let first = name_of(&dir, &[]);
        let path = dir.join("tree/etc/passwd");
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        // The kernel's time of change has the resolution of its clock's tick.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "toor").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(before).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        assert_ne!(name_of(&dir, &[]), first);
        fs::remove_dir_all(dir).unwrap();
    }

    /// All of a lab's are made before its first guest starts.
    #[test]
    fn an_image_stays_while_others_are_made() {
        if crate::programs::find(squashfs::PROGRAM).is_none() {
            eprintln!("skipped: {} is not installed", squashfs::PROGRAM);
            return;
        }
        let dir = tree("others");
        let disks = Disks::new(&dir);
        let images: Vec<PathBuf> = (0..20)
            .map(|number: u32| {
                fs::write(dir.join("tree/secret"), "x".repeat(number as usize)).unwrap();
                disks.of(&dir.join("tree"), &[], &|_| ()).unwrap()
            })
            .collect();
        assert!(images.iter().all(|image| image.exists()));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_image_is_made_once_and_holds_nothing_hidden() {
        if crate::programs::find(squashfs::PROGRAM).is_none() {
            eprintln!("skipped: {} is not installed", squashfs::PROGRAM);
            return;
        }
        let dir = tree("image");
        let disks = Disks::new(&dir);
        let told = std::cell::Cell::new(0);
        let progress = |_: &str| told.set(told.get() + 1);
        let make = || {
            let hidden = [PathBuf::from("/secret")];
            disks.of(&dir.join("tree"), &hidden, &progress).unwrap()
        };
        let image = make();
        assert_eq!(make(), image);
        assert_eq!(told.get(), 1);
        let bytes = fs::read(&image).unwrap();
        let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(bytes.starts_with(b"hsqs") && holds(b"passwd") && !holds(b"secret"));
        assert!(fs::read_dir(dir.join(DIRECTORY)).unwrap().count() <= 2);
        fs::remove_dir_all(dir).unwrap();
    }
}
