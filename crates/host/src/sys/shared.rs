//! Memory shared with another process through a file, as atomic 64-bit words.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

/// A shared mapping of the start of a file. What the other side may do to the words at any time is no
/// more than what atomics allow for.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and all access to it is through shared atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `bytes` of `file`, which must be that long: touching a mapping beyond the end of
    /// its file would kill the process.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is too short",
            ));
        }
        // SAFETY: a fresh shared mapping at an address of the kernel's choice aliases no Rust object.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )?
        };
        let start = NonNull::new(start.cast());
        let start = start.ok_or_else(|| io::Error::other("the kernel mapped address zero"))?;
        Ok(Self { start, bytes })
    }

    /// The word at this index; panics beyond the end of the mapping.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(
            index < self.bytes / size_of::<AtomicU64>(),
            "word {index} of {} bytes",
            self.bytes
        );
        // SAFETY: in bounds by the assertion, aligned because mappings begin at a page, valid for any
        // bits, mapped as long as `self` lives, and accessed as an atomic by both sides.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this size, and no reference into it outlives `self`.
        // The only error is of arguments that are not a mapping.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
