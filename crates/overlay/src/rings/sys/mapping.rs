//! One region of a guest's memory, mapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::truncation::Watch;
use crate::frames::Segment;

/// Memory that a guest shares, mapped while this lives.
#[derive(Debug)]
pub struct Region {
    /// The mapping, in whole pages of the file's page size.
    map: *mut u8,
    map_len: usize,
    /// Start of the region in the mapping.
    start: *mut u8,
    len: usize,
    watch: Option<Watch>,
}

// SAFETY: a region is an address range that stays mapped; access is by copying and by atomics, and
// guests change it at any time anyway.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes of a file from `offset` on. Errors: a file that is too short, or not in memory; errors of
    /// mmap.
    pub fn new(file: &File, offset: u64, len: u64) -> io::Result<Region> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        if !is_memory(file)? {
            return Err(invalid(
                "its file is not memory: back it by a memfd, by /dev/shm or by huge pages",
            ));
        }
        let about = file.metadata()?;
        let end = offset.checked_add(len).filter(|&end| end <= about.size());
        let end = end.ok_or_else(|| invalid("its file is shorter than the region"))?;
        if len == 0 {
            return Err(invalid("it is empty"));
        }
        // A hugetlbfs file needs both ends on huge pages.
        let page = about.blksize().max(4096);
        let from = offset / page * page;
        let map_len = (end - from).checked_next_multiple_of(page);
        let map_len = map_len.and_then(|l| usize::try_from(l).ok());
        let map_len = map_len.ok_or_else(|| invalid("it is too long"))?;
        let inside = usize::try_from(offset - from).map_err(|_| invalid("it is too long"))?;
        let from = i64::try_from(from).map_err(|_| invalid("it is too long"))?;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                from,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let watch = Watch::new(map as usize, map_len).inspect_err(|_| {
            // SAFETY: mapped above, and no place refers to it yet.
            unsafe { libc::munmap(map, map_len) };
        })?;
        let map = map.cast::<u8>();
        Ok(Region {
            map,
            map_len,
            // SAFETY: `inside` is less than `map_len`.
            start: unsafe { map.add(inside) },
            len: usize::try_from(len).map_err(|_| invalid("it is too long"))?,
            watch: Some(watch),
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether its file was truncated: reads give zeros since then.
    pub fn lost(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::lost)
    }

    /// A place in it; none unless all of it is inside.
    pub fn place(&self, at: usize, len: usize) -> Option<Place> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `at` is inside.
        let start = unsafe { self.start.add(at) };
        Some(Place { start, len })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // The watch first: it must not cover another mapping's address.
        self.watch = None;
        // SAFETY: mapped in `new`, and every holder of a place in it holds the region.
        unsafe { libc::munmap(self.map.cast(), self.map_len) };
    }
}

/// Whether a file's pages are always in memory. An access to pages of a disk or of FUSE would block in the kernel until a
/// device or another program provides them.
fn is_memory(file: &File) -> io::Result<bool> {
    const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;
    // A kernel without tmpfs has its memory files in ramfs (mm/shmem.c).
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(file)?.f_type;
    Ok([TMPFS_MAGIC, HUGETLBFS_MAGIC, RAMFS_MAGIC].contains(&(kind as i64)))
}

#[derive(Debug, Clone, Copy)]
pub struct Place {
    start: *mut u8,
    len: usize,
}

// SAFETY: see `Region`.
unsafe impl Send for Place {}

impl Place {
    #[inline]
    pub fn bytes(self) -> usize {
        self.len
    }

    /// The part from `offset` on, at most `len` bytes; shorter or empty where the place ends.
    #[inline]
    pub fn part(self, offset: usize, len: usize) -> Place {
        let offset = offset.min(self.len);
        Place {
            // SAFETY: `offset` is at most the length.
            start: unsafe { self.start.add(offset) },
            len: len.min(self.len - offset),
        }
    }

    /// The address, for a prefetch.
    #[inline]
    pub fn address(self) -> *const u8 {
        self.start
    }

    /// The place as borrowed memory of a frame. The ring stays checked out, and with it the region, until the frame's batch
    /// is complete.
    #[inline]
    pub fn segment(self) -> Segment {
        // SAFETY: the promise above; `crate::rings::slot` keeps it.
        unsafe { Segment::new(self.start, self.len) }
    }

    /// Reads a descriptor, each of its 16 bytes once. If the guest writes meanwhile, the result may mix both values.
    ///
    /// # Panics
    ///
    /// If it is not inside, or not aligned to 8 bytes: callers have checked both.
    #[inline]
    pub fn load_descriptor(self, at: usize) -> [u64; 2] {
        assert!(at + 16 <= self.len, "a descriptor outside of its table");
        // SAFETY: inside.
        let from = unsafe { self.start.add(at) }.cast::<u64>();
        assert!(from.is_aligned(), "a table that is not aligned");
        // SAFETY: inside, mapped and aligned. Volatile: the compiler must keep what was read, not
        // read again what has been checked.
        unsafe { [from.read_volatile(), from.add(1).read_volatile()] }.map(u64::from_le)
    }

    /// Copies into the guest's memory; returns the number of bytes that fit.
    #[inline]
    pub fn write(self, from: &[u8]) -> usize {
        let len = self.len.min(from.len());
        // SAFETY: `len` bytes are inside the place, which is mapped; `from` is ours, not the guest's.
        unsafe { crate::frames::copy(from.as_ptr(), self.start, len) };
        len
    }

    /// Writes a virtio header of 12 bytes unless it is there already: an unwritten cache line stays shared between both
    /// CPUs. False if it does not fit.
    #[inline]
    pub fn write_header(self, header: [u8; 12]) -> bool {
        let before = self.read_header();
        if before.is_some_and(|before| before != header) {
            // SAFETY: inside, as it could be read, and mapped; an array of bytes needs no alignment.
            unsafe { self.start.cast::<[u8; 12]>().write(header) };
        }
        before.is_some()
    }

    /// Reads a virtio header of 12 bytes, each once; none if it does not fit.
    #[inline]
    pub fn read_header(self) -> Option<[u8; 12]> {
        if self.len < 12 {
            return None;
        }
        // Volatile, as in `load_descriptor`, in words as large as the guest's alignment permits. Assembled as one number:
        // reading an array as a whole would wait for the stores of its parts (store forwarding).
        let mut all = 0;
        if self.start.cast::<u32>().is_aligned() {
            for word in 0..3 {
                // SAFETY: inside, mapped and aligned.
                let read = unsafe { self.start.cast::<u32>().add(word).read_volatile() };
                all |= u128::from(u32::from_le(read)) << (32 * word);
            }
        } else if self.start.cast::<u16>().is_aligned() {
            for word in 0..6 {
                // SAFETY: as above.
                let read = unsafe { self.start.cast::<u16>().add(word).read_volatile() };
                all |= u128::from(u16::from_le(read)) << (16 * word);
            }
        } else {
            for at in 0..12 {
                // SAFETY: as above.
                let read = unsafe { self.start.add(at).read_volatile() };
                all |= u128::from(read) << (8 * at);
            }
        }
        all.to_le_bytes().first_chunk().copied()
    }

    /// Copies borrowed memory into the guest's; returns the number of bytes that fit.
    #[inline]
    pub fn write_segment(self, from: Segment) -> usize {
        // SAFETY: the place is mapped and writable for its length.
        unsafe { from.copy_to_raw(self.start, self.len) }
    }

    /// Copies from the guest's memory; returns the number of bytes.
    #[inline]
    pub fn read(self, to: &mut [u8]) -> usize {
        self.segment().copy_to(to)
    }
}
