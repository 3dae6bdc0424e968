//! A migration's log: one bit per page of the guest that we write to.
//!
//! A plain atomic OR for each written page. DPDK gathered them in batches once, and migrations of busy
//! guests never came to an end (its commit bb77d555d4).

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::sys::{Area, Region};

const PAGE: u64 = 4096;

/// The monitor's bitmap.
#[derive(Debug)]
pub struct DirtyLog {
    region: Arc<Region>,
    bits: Area,
}

impl DirtyLog {
    /// Maps the log that the monitor shares.
    ///
    /// # Errors
    ///
    /// A file that is too short, and what mmap says.
    pub fn new(file: &File, offset: u64, bytes: u64) -> io::Result<DirtyLog> {
        let region = Arc::new(Region::new(file, offset, bytes)?);
        let bits = Area::new(&region, 0, region.len(), 1);
        let bits = bits.ok_or_else(|| io::Error::other("an empty log"))?;
        Ok(DirtyLog { region, bits })
    }

    /// Notes `bytes` bytes from `guest` on as written. Pages that the log does not have are not the
    /// guest's memory any more, and nobody asks for them.
    pub fn written(&self, guest: u64, bytes: u64) {
        let last = guest.saturating_add(bytes.max(1) - 1) / PAGE;
        for page in guest / PAGE..=last {
            match usize::try_from(page / 8) {
                Ok(at) if at < self.bits.place().bytes() => self.bits.set_bits(at, 1 << (page % 8)),
                _ => return,
            }
        }
    }

    /// Whether it was truncated by its owner.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.region.lost()
    }
}

/// The log, for a used ring: it lies at an address that the monitor gives, not at the ring's own.
#[derive(Debug, Clone)]
pub struct UsedLog {
    /// The bitmap.
    pub log: Arc<DirtyLog>,
    /// The guest-physical address for the ring's first byte.
    pub guest: u64,
}

impl UsedLog {
    /// Notes a part of the used ring.
    pub fn written(&self, at: usize, bytes: u64) {
        self.log
            .written(self.guest.saturating_add(at as u64), bytes);
    }
}
