//! Loop devices: a file as a disk (loop(4)).
//!
//! A device is bound to its file and told to let it go by itself in one step (`LOOP_CONFIGURE`, Linux 5.8). So no end of
//! this process leaves one: it is free again as soon as neither a mount nor a descriptor has it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Error;
use super::error::checked;
use super::file::if_there;

const CONTROL: &str = "/dev/loop-control";

/// `linux/loop.h`.
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
const LO_NAME_SIZE: usize = 64;

/// Sizes of a sector, the usual one first. Direct I/O needs one that is no smaller than the disk's.
const SECTORS: [u32; 2] = [512, 4096];

/// Attempts at a free device that others take meanwhile.
const ATTEMPTS: usize = 64;
/// How often devices that are about to be free are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LO_NAME_SIZE],
    crypt_name: [u8; LO_NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Configuration {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A device that has a file. It is free again when this value and all mounts of it are gone.
#[derive(Debug)]
pub struct LoopDevice {
    file: File,
    path: PathBuf,
    number: u32,
}

impl LoopDevice {
    /// Makes a disk of a file that is open for reading and writing. With `direct`, past the page cache. Fails where the
    /// file system of the file has no direct I/O.
    pub fn new(backing: BorrowedFd<'_>, direct: bool) -> Result<Self, Error> {
        for sector in SECTORS {
            let device = Self::with_sectors(backing, direct, sector)?;
            if !direct || device.is_direct()? {
                return Ok(device);
            }
        }
        let reason = "the file system of its image has no direct I/O";
        let kind = io::ErrorKind::Unsupported;
        Err(Error::because("make", "a loop device", kind, reason))
    }

    fn with_sectors(backing: BorrowedFd<'_>, direct: bool, sector: u32) -> Result<Self, Error> {
        let control = File::options().read(true).write(true).open(CONTROL);
        let control = control.map_err(Error::of("open", CONTROL))?;
        for _ in 0..ATTEMPTS {
            let number = free(control.as_fd()).map_err(Error::of("ask for a device", CONTROL))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = File::options().read(true).write(true).open(&path);
            let file = file.map_err(Error::of("open", path.display()))?;
            match configure(file.as_fd(), backing, direct, sector) {
                Ok(()) => return Ok(Self { file, path, number }),
                // Taken between the two steps.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) => return Err(Error::of("configure", path.display())(error)),
            }
        }
        let kind = io::ErrorKind::ResourceBusy;
        let reason = "others take every free device";
        Err(Error::because("make", "a loop device", kind, reason))
    }

    /// Whether it goes past the page cache; a kernel that cannot do that goes through it without a word.
    fn is_direct(&self) -> Result<bool, Error> {
        let path = format!("/sys/block/loop{}/loop/dio", self.number);
        let text = fs::read_to_string(&path).map_err(Error::of("read", &path))?;
        Ok(text.trim() == "1")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for LoopDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn free(control: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: takes no argument and answers with a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

fn configure(
    device: BorrowedFd<'_>,
    backing: BorrowedFd<'_>,
    direct: bool,
    sector: u32,
) -> io::Result<()> {
    // SAFETY: a plain C structure of numbers, for which zero is a value.
    let mut wanted: Configuration = unsafe { std::mem::zeroed() };
    wanted.fd = backing.as_raw_fd() as u32;
    wanted.block_size = sector;
    wanted.info.flags = LO_FLAGS_AUTOCLEAR | if direct { LO_FLAGS_DIRECT_IO } else { 0 };
    // SAFETY: the kernel reads the structure, which has its layout and lives for the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const wanted) })
}

/// The devices whose files are below a directory.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    const DEVICES: &str = "/sys/block";
    let entries = if_there(fs::read_dir(DEVICES)).map_err(Error::of("list", DEVICES))?;
    let has_file = |device: &PathBuf| {
        // There is no such file while the device is free.
        let file = fs::read_to_string(device.join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(directory))
    };
    let devices = entries.into_iter().flatten().flatten();
    let devices = devices.map(|entry| entry.path());
    Ok(devices.filter(has_file).collect())
}

/// Waits until no device has a file below a directory: the last user of a mount lets it go some time after its own end.
/// Those that are left after `timeout`.
pub fn wait_until_free(directory: &Path, timeout: Duration) -> Result<Vec<PathBuf>, Error> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = below(directory)?;
        if left.is_empty() || Instant::now() >= deadline {
            return Ok(left);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Configuration>(), 304);
    }

    #[test]
    fn no_device_has_a_file_where_none_is() {
        assert!(below(Path::new("/nonexistent")).unwrap().is_empty());
        let left = wait_until_free(Path::new("/nonexistent"), Duration::ZERO).unwrap();
        assert!(left.is_empty());
    }
}
