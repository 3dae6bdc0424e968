//! Disks of a guest with files that it may write: its storage of type disk.
//!
//! QEMU gets the image as an open descriptor (`-add-fd`). It has no path to it, no right to open it, and what it was
//! opened for is decided here, direct I/O too.

use std::os::fd::{BorrowedFd, RawFd};

use latlab_model::kinds::{DiskCache, DiskDevice, GuestDisk};

use super::command_line::Line;

/// The first number of a set of descriptors; that of the console is 1.
const FIRST_SET: usize = 2;

/// A disk of a guest.
#[derive(Debug, Clone)]
pub struct Disk<'a> {
    /// The directory inside.
    pub at: String,
    pub shape: GuestDisk,
    /// Its image, open for reading and writing.
    pub image: BorrowedFd<'a>,
}

/// The serial number by which the guest's agent finds a disk.
pub(super) fn serial(index: usize) -> String {
    format!("storage{index}")
}

impl Disk<'_> {
    /// The words for the disk, whose image QEMU inherits under this number.
    pub(super) fn describe(&self, line: &mut Line, index: usize, fd: RawFd) {
        let GuestDisk {
            device,
            cache,
            aio,
            format,
        } = self.shape;
        let (set, serial) = (FIRST_SET + index, serial(index));
        let on = |yes: bool| if yes { "on" } else { "off" };
        let direct = on(cache.is_direct());
        let no_flush = on(cache == DiskCache::Unsafe);
        line.option("-add-fd", format!("fd={fd},set={set}"));
        line.option(
            "-blockdev",
            format!(
                "driver={format},node-name={serial},cache.direct={direct},cache.no-flush={no_flush},\
                 file.driver=file,file.filename=/dev/fdset/{set},file.aio={aio},\
                 file.cache.direct={direct},file.cache.no-flush={no_flush}"
            ),
        );
        let write_cache = on(cache.has_write_cache());
        let drive = format!("drive={serial},serial={serial},write-cache={write_cache}");
        match device {
            DiskDevice::VirtioBlk => line.option("-device", format!("virtio-blk-pci,{drive}")),
            DiskDevice::VirtioScsi => {
                line.option("-device", format!("virtio-scsi-pci,id=scsi{index}"));
                line.option("-device", format!("scsi-hd,bus=scsi{index}.0,{drive}"));
            }
        }
    }
}
