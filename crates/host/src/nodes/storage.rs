//! Storage of nodes: directories and images in the state directory of their lab, and their mounts.
//!
//! ```text
//! storage/NODE/N                  the node's storage number N, mode 0700
//! storage/NODE/N/files            a volume
//! storage/NODE/N/{empty,upper,work}   an overlay: its lower directory, and its layer
//! storage/NODE/N/image            a disk
//! ```
//!
//! The disk is that of the lab's state, because the run directory is in memory. The journal lists the whole
//! directory. Mounts are made in mount namespaces of nodes only, so they end with these, and a loop device ends with
//! its mount. Nothing in a mount is a way to a device or to another user. Images of VMs are made here and never mounted:
//! a file system that a guest has written is not for the host's kernel to read.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::kinds::{DiskFormat, StorageType};
use latlab_model::plan::{NodePlan, StoragePlan};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::programs;
use crate::sys::loop_device::LoopDevice;
use crate::sys::{self, command, file, mount};

const FILES: &str = "files";
const EMPTY: &str = "empty";
const UPPER: &str = "upper";
const WORK: &str = "work";
const IMAGE: &str = "image";

/// For the file system of a disk of many gigabytes, and its conversion.
const TIMEOUT: Duration = Duration::from_secs(600);

/// All of the file system is written now: what ext4 would do later in the background would be measured. Blocks are of 4
/// KiB whatever the size, and none are kept for root.
const MKFS: [&str; 8] = [
    "-q",
    "-F",
    "-b",
    "4096",
    "-m",
    "0",
    "-E",
    "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
];

/// A storage of a node, with the directory that holds it.
#[derive(Debug, Clone)]
pub struct Held {
    pub plan: StoragePlan,
    pub dir: PathBuf,
}

/// The storage of a node, which is below `dir`.
pub(crate) fn of(node: &NodePlan, dir: &Path) -> Vec<Held> {
    let numbered = node.storage.iter().enumerate();
    let held = numbered.map(|(number, plan)| Held {
        plan: plan.clone(),
        dir: dir.join(number.to_string()),
    });
    held.collect()
}

impl Held {
    /// Makes its directories and its image.
    pub(crate) fn make(&self) -> Result<(), sys::Error> {
        file::make_private(&self.dir).map_err(sys::Error::of("make", self.dir.display()))?;
        let directories: &[&str] = match self.plan.kind {
            StorageType::Volume => &[FILES],
            StorageType::Overlay => &[EMPTY, UPPER, WORK],
            StorageType::Tmpfs | StorageType::Disk => &[],
        };
        for name in directories {
            let directory = self.dir.join(name);
            let made = DirBuilder::new().mode(0o755).create(&directory);
            made.map_err(sys::Error::of("make", directory.display()))?;
        }
        if self.plan.kind == StorageType::Disk {
            self.make_image()
                .map_err(sys::Error::of("make", self.image().display()))?;
        }
        Ok(())
    }

    fn make_image(&self) -> io::Result<()> {
        let format = self.plan.guest.map(|guest| guest.format);
        let (image, raw) = (self.image(), self.dir.join("raw"));
        let size = self.plan.size.map_or(0, |size| size.0);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&raw)?;
        file.set_len(size)?;
        run("mkfs.ext4", &MKFS, &[&raw])?;
        if format == Some(DiskFormat::Qcow2) {
            let words = ["convert", "-q", "-f", "raw", "-O", "qcow2"];
            run("qemu-img", &words, &[&raw, &image])?;
            fs::set_permissions(&image, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            fs::remove_file(&raw)?;
        } else {
            // A file system of the host that is full would be an error of the disk.
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno.into()),
            }
            fs::rename(&raw, &image)?;
        }
        // Later writes would be measured.
        File::open(&image)?.sync_all()
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.dir.join(FILES)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }

    /// Opened past the host's page cache where the guest's disk is: QEMU 10 takes no descriptor that is not, and older
    /// ones would set that themselves. A file system without direct I/O is for QEMU to name.
    pub(crate) fn open_image(&self) -> Result<File, sys::Error> {
        let image = self.image();
        let open = |flags: OFlags| {
            let mut options = File::options();
            options.read(true).write(true);
            options.custom_flags(flags.bits() as i32).open(&image)
        };
        let is_direct = self.plan.guest.is_some_and(|guest| guest.cache.is_direct());
        let file = match is_direct.then(|| open(OFlags::DIRECT)) {
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                open(OFlags::empty())
            }
            Some(direct) => direct,
            None => open(OFlags::empty()),
        };
        file.map_err(sys::Error::of("open", image.display()))
    }

    /// The needs of its mount, opened in the machine's own mount namespace. A loop device writes to its image for as long
    /// as the node is there, and the mount of a file that is written cannot be made read-only, as Docker's daemon
    /// has the machine's root in its namespace.
    pub(crate) fn open(&self) -> Result<Ready<'_>, sys::Error> {
        let is_loop = self.plan.kind == StorageType::Disk;
        let image = is_loop.then(|| self.open_image()).transpose()?;
        Ok(Ready { held: self, image })
    }
}

/// A storage that can be mounted.
pub(crate) struct Ready<'a> {
    held: &'a Held,
    image: Option<File>,
}

impl Ready<'_> {
    /// Its directory inside.
    pub(crate) fn at(&self) -> &str {
        &self.held.plan.at
    }

    /// Mounts it at `at`, in a mount namespace of a node's own.
    pub(crate) fn mount(&self, at: &Path) -> Result<(), sys::Error> {
        let held = self.held;
        match held.plan.kind {
            StorageType::Volume => {
                mount::bind(&held.files(), at, false)?;
                mount::make_inert(at)
            }
            StorageType::Overlay => {
                let dir = |name: &str| held.dir.join(name);
                mount::overlay(&[&dir(EMPTY)], &dir(UPPER), &dir(WORK), at)?;
                mount::make_inert(at)
            }
            StorageType::Tmpfs => mount::tmpfs(at, held.plan.size.map_or(0, |size| size.0)),
            StorageType::Disk => {
                let Some(image) = &self.image else {
                    return Ok(());
                };
                let device = LoopDevice::new(image.as_fd(), true)?;
                let flags = MountFlags::NODEV | MountFlags::NOSUID;
                mount::file_system(device.path(), at, "ext4", flags, "")
            }
        }
    }
}

fn run(program: &str, words: &[&str], paths: &[&Path]) -> io::Result<()> {
    let tool = programs::find(program).unwrap_or_else(|| program.into());
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let words = words.iter().copied();
    let words: Vec<&str> = words.chain(paths.iter().map(AsRef::as_ref)).collect();
    command::output(OsStr::new(&tool), &words, "", TIMEOUT).map(drop)
}

#[cfg(test)]
mod tests {
    use latlab_model::units::Bytes;

    use super::*;

    fn held(name: &str, kind: StorageType) -> Held {
        let dir = std::env::temp_dir().join(format!("latlab-held-{name}-{}", std::process::id()));
        Held {
            plan: StoragePlan {
                at: "/mnt".into(),
                kind,
                size: Some(Bytes(16 << 20)),
                guest: None,
            },
            dir,
        }
    }

    #[test]
    fn directories_are_those_of_the_type() {
        for (kind, expected) in [
            (StorageType::Volume, &["files"][..]),
            (StorageType::Overlay, &["empty", "upper", "work"]),
            (StorageType::Tmpfs, &[]),
        ] {
            let held = held("dirs", kind);
            held.make().unwrap();
            let found = fs::read_dir(&held.dir).unwrap();
            let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, expected);
            fs::remove_dir_all(&held.dir).unwrap();
        }
    }

    #[test]
    fn an_image_has_a_file_system_of_its_size() {
        if programs::find("mkfs.ext4").is_none() {
            eprintln!("skipped: mkfs.ext4 is not installed");
            return;
        }
        let held = held("image", StorageType::Disk);
        held.make().unwrap();
        let bytes = fs::read(held.image()).unwrap();
        assert_eq!(bytes.len(), 16 << 20);
        // The magic number and the size of blocks (ext4: super block at 1024, offsets 56 and 24).
        assert_eq!(bytes[1024 + 56..1024 + 58], [0x53, 0xef]);
        assert_eq!(bytes[1024 + 24], 2);
        fs::remove_dir_all(&held.dir).unwrap();
    }
}
