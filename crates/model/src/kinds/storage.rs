//! Storage of a node: where the files of one of its directories are, and the way to them.

use serde::{Deserialize, Serialize};

use crate::words::vocabulary;

/// The holder of a directory's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageType {
    /// A directory of the host's disk; a share in a VM.
    #[default]
    Volume,
    /// A writable layer on the host's disk over an empty directory, as the root of a Docker container has it.
    Overlay,
    /// Memory.
    Tmpfs,
    /// A file system of its own in an image on the host's disk: over a loop device, or a disk of a VM.
    Disk,
}

vocabulary!(StorageType, {
    "volume" => Volume, "overlay" => Overlay, "tmpfs" => Tmpfs, "disk" => Disk,
});

impl StorageType {
    /// Its space is its own, and has an end.
    pub fn is_sized(self) -> bool {
        matches!(self, StorageType::Tmpfs | StorageType::Disk)
    }

    /// Its files are on the disk of the host's state directory.
    pub fn is_on_disk(self) -> bool {
        self != StorageType::Tmpfs
    }
}

/// The way from a VM to the image of its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestDisk {
    pub device: DiskDevice,
    pub cache: DiskCache,
    pub aio: DiskAio,
    pub format: DiskFormat,
}

impl GuestDisk {
    /// Its way in words.
    pub fn facts(&self) -> String {
        let GuestDisk {
            device,
            cache,
            aio,
            format,
        } = self;
        format!("{device}, {format}, cache {cache}, aio {aio}")
    }
}

/// The device that a guest sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskDevice {
    #[default]
    VirtioBlk,
    VirtioScsi,
}

vocabulary!(DiskDevice, { "virtio-blk" => VirtioBlk, "virtio-scsi" => VirtioScsi });

/// QEMU's cache modes (`-drive cache=`): whether the host's page cache is between, and when a write is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCache {
    /// No page cache of the host.
    #[default]
    None,
    Writeback,
    /// The page cache, and every write is flushed.
    Writethrough,
    /// No page cache, and every write is flushed.
    Directsync,
    /// The page cache, and the guest's flushes do nothing.
    Unsafe,
}

vocabulary!(DiskCache, {
    "none" => None, "writeback" => Writeback, "writethrough" => Writethrough, "directsync" => Directsync,
    "unsafe" => Unsafe,
});

impl DiskCache {
    /// The host's page cache is left out (O_DIRECT).
    pub fn is_direct(self) -> bool {
        matches!(self, DiskCache::None | DiskCache::Directsync)
    }

    /// The guest sees a write cache that it has to flush.
    pub fn has_write_cache(self) -> bool {
        !matches!(self, DiskCache::Writethrough | DiskCache::Directsync)
    }
}

/// The host's interface by which QEMU reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskAio {
    /// QEMU's own threads, as QEMU and libvirt choose.
    #[default]
    Threads,
    /// Linux AIO (io_submit(2)).
    Native,
    IoUring,
}

vocabulary!(DiskAio, { "threads" => Threads, "native" => Native, "io_uring" => IoUring });

/// The format of the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFormat {
    #[default]
    Raw,
    Qcow2,
}

vocabulary!(DiskFormat, { "raw" => Raw, "qcow2" => Qcow2 });
