//! A migration's log: one bit per page that we write.
//!
//! One atomic OR per written page. DPDK once batched them, and migrations of busy guests never ended (its commit
//! bb77d555d4).

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::sys::{Area, Region};

const PAGE: u64 = 4096;

#[derive(Debug)]
pub struct DirtyLog {
    region: Arc<Region>,
    bits: Area,
}

impl DirtyLog {
    pub fn new(file: &File, offset: u64, bytes: u64) -> io::Result<DirtyLog> {
        let region = Arc::new(Region::new(file, offset, bytes)?);
        let bits = Area::new(&region, 0, region.len(), 1);
        let bits = bits.ok_or_else(|| io::Error::other("an empty log"))?;
        Ok(DirtyLog { region, bits })
    }

    /// Logs `bytes` bytes from `guest` on as written. Pages beyond the log are no longer the guest's memory.
    pub fn written(&self, guest: u64, bytes: u64) {
        let last = guest.saturating_add(bytes.max(1) - 1) / PAGE;
        for page in guest / PAGE..=last {
            match usize::try_from(page / 8) {
                Ok(at) if at < self.bits.place().bytes() => self.bits.set_bits(at, 1 << (page % 8)),
                _ => return,
            }
        }
    }

    #[must_use]
    pub fn lost(&self) -> bool {
        self.region.lost()
    }
}

/// The log of a used ring, at an address that the VMM gives: not the ring's own.
#[derive(Debug, Clone)]
pub struct UsedLog {
    pub log: Arc<DirtyLog>,
    /// Guest-physical address of the ring's first byte.
    pub guest: u64,
}

impl UsedLog {
    pub fn written(&self, at: usize, bytes: u64) {
        self.log
            .written(self.guest.saturating_add(at as u64), bytes);
    }
}
