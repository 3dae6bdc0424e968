//! Huge pages: the kernel's pools, one for each size, and file systems that have pages of one.
//! Kernel: admin-guide/mm/hugetlbpage.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::Error;

/// The directory of the pools.
pub const POOLS: &str = "/sys/kernel/mm/hugepages";

/// The pool of pages of one size.
#[derive(Debug, Clone)]
pub struct Pool {
    directory: PathBuf,
}

impl Pool {
    /// That of pages of `bytes` in a directory of pools; none if the kernel has no such pages.
    pub fn of(pools: &Path, bytes: u64) -> Option<Pool> {
        let directory = pools.join(format!("hugepages-{}kB", bytes >> 10));
        directory.is_dir().then_some(Pool { directory })
    }

    /// All its pages.
    pub fn pages(&self) -> Result<u64, Error> {
        self.read("nr_hugepages")
    }

    /// Pages that are neither in use nor promised.
    pub fn unclaimed(&self) -> Result<u64, Error> {
        let (free, promised) = (self.read("free_hugepages")?, self.read("resv_hugepages")?);
        Ok(free.saturating_sub(promised))
    }

    /// Asks for a number of pages and returns how many there are then: memory may be too fragmented for more, and pages
    /// in use stay until they are given back.
    pub fn resize(&self, pages: u64) -> Result<u64, Error> {
        let file = self.directory.join("nr_hugepages");
        fs::write(&file, pages.to_string()).map_err(Error::of("write", file.display()))?;
        self.pages()
    }

    fn read(&self, name: &str) -> Result<u64, Error> {
        let file = self.directory.join(name);
        let text = fs::read_to_string(&file).map_err(Error::of("read", file.display()))?;
        let number = text.trim().parse();
        number.map_err(|_| {
            let kind = io::ErrorKind::InvalidData;
            Error::because("understand", file.display(), kind, "not a number")
        })
    }
}

/// A file system of `bytes` in pages of one size, root's alone, attached nowhere yet. The kernel promises it all of
/// its pages, and takes that back with its last mount.
pub fn file_system(page_bytes: u64, bytes: u64) -> Result<OwnedFd, Error> {
    let failed = |errno: rustix::io::Errno| Error::of("make", "a file system of huge pages")(errno);
    let options = rustix::mount::fsopen("hugetlbfs", FsOpenFlags::FSOPEN_CLOEXEC);
    let options = options.map_err(failed)?;
    let set = |name: &str, value: String| {
        rustix::mount::fsconfig_set_string(options.as_fd(), name, value.as_str()).map_err(failed)
    };
    set("pagesize", page_bytes.to_string())?;
    set("size", bytes.to_string())?;
    set("min_size", bytes.to_string())?;
    set("mode", "0700".to_owned())?;
    rustix::mount::fsconfig_create(options.as_fd()).map_err(failed)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(options.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(failed)
}
