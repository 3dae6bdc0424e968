//! A guest's memory: regions of files that its monitor shares, and the two ways to name a byte in it.
//!
//! Descriptors hold guest-physical addresses, ring addresses are the monitor's own virtual ones. A
//! table of regions never changes: hot-plug makes a new one that shares what stays.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::fault::Fault;
use super::sys::{Area, Place, Region};

/// Most regions, as many as file descriptors fit into one message (and QEMU's default of slots).
pub const MOST_REGIONS: usize = 32;

/// Where a region lies, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Guest-physical address.
    pub guest: u64,
    /// The monitor's virtual address.
    pub user: u64,
    /// Bytes.
    pub len: u64,
}

/// Why a region is not taken.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Cannot be mapped.
    #[error("cannot map the guest's memory at {guest:#x}: {source}")]
    Map {
        /// Its guest-physical address.
        guest: u64,
        /// The reason.
        source: io::Error,
    },
    /// Its end is beyond the last address.
    #[error("the region at {0:#x} goes beyond the last address")]
    Wraps(u64),
    /// It lies over another.
    #[error("the region at {0:#x} overlaps another")]
    Overlaps(u64),
    /// Too many.
    #[error("more than {MOST_REGIONS} regions")]
    TooMany,
    /// To be removed, but not there.
    #[error("there is no region at {0:#x}")]
    Missing(u64),
}

/// All regions of one guest.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// By guest-physical address.
    regions: Vec<(Location, Arc<Region>)>,
}

impl Memory {
    /// The same memory and one region more.
    ///
    /// # Errors
    ///
    /// See [`MemoryError`].
    pub fn with(&self, at: Location, file: &File, offset: u64) -> Result<Memory, MemoryError> {
        let end = |start: u64| start.checked_add(at.len);
        let (Some(guest_end), Some(user_end)) = (end(at.guest), end(at.user)) else {
            return Err(MemoryError::Wraps(at.guest));
        };
        let beside = |(other, _): &(Location, Arc<Region>)| {
            (guest_end <= other.guest || other.guest + other.len <= at.guest)
                && (user_end <= other.user || other.user + other.len <= at.user)
        };
        if !self.regions.iter().all(beside) {
            return Err(MemoryError::Overlaps(at.guest));
        }
        if self.regions.len() == MOST_REGIONS {
            return Err(MemoryError::TooMany);
        }
        let region = Region::new(file, offset, at.len).map_err(|source| MemoryError::Map {
            guest: at.guest,
            source,
        })?;
        let mut regions = self.regions.clone();
        regions.push((at, Arc::new(region)));
        regions.sort_by_key(|(location, _)| location.guest);
        Ok(Memory { regions })
    }

    /// The same memory without one region.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn without(&self, at: Location) -> Result<Memory, MemoryError> {
        let index = self.regions.iter().position(|(other, _)| *other == at);
        let index = index.ok_or(MemoryError::Missing(at.guest))?;
        let mut regions = self.regions.clone();
        regions.remove(index);
        Ok(Memory { regions })
    }

    /// Whether some of it was truncated by its owner.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.regions.iter().any(|(_, region)| region.lost())
    }

    /// A ring's part, by the monitor's address; within one region.
    pub fn area(&self, user: u64, len: usize, align: usize) -> Option<Area> {
        let holds = |l: &Location| user >= l.user && user - l.user < l.len;
        let (location, region) = self.regions.iter().find(|(l, _)| holds(l))?;
        Area::new(
            region,
            usize::try_from(user - location.user).ok()?,
            len,
            align,
        )
    }

    /// The guest-physical address of a byte that the monitor names.
    pub fn guest_address(&self, user: u64) -> Option<u64> {
        let holds = |l: &Location| user >= l.user && user - l.user < l.len;
        let (location, _) = self.regions.iter().find(|(l, _)| holds(l))?;
        Some(location.guest + (user - location.user))
    }

    /// The region that holds a guest-physical address.
    fn holding(&self, guest: u64) -> Option<&(Location, Arc<Region>)> {
        let after = self.regions.partition_point(|(l, _)| l.guest <= guest);
        let found = self.regions.get(after.checked_sub(1)?)?;
        (guest - found.0.guest < found.0.len).then_some(found)
    }
}

/// A memory with the region that was found last: a guest's buffers mostly lie in the same one.
#[derive(Debug)]
pub struct Lookup {
    memory: Arc<Memory>,
    last: Location,
    /// The whole of the last region.
    place: Option<Place>,
}

impl Lookup {
    /// Looks nothing up yet.
    pub fn new(memory: Arc<Memory>) -> Lookup {
        Lookup {
            memory,
            last: Location {
                guest: 0,
                user: 0,
                len: 0,
            },
            place: None,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Calls `take` with the places of `len` bytes from `guest` on, each with its address: one, or more
    /// where they cross regions.
    ///
    /// # Errors
    ///
    /// When not all of it is the guest's memory; what was taken before is then not to be used.
    #[inline]
    pub fn find(
        &mut self,
        guest: u64,
        len: u32,
        mut take: impl FnMut(Place, u64),
    ) -> Result<(), Fault> {
        let (mut guest, mut left) = (guest, u64::from(len));
        loop {
            let inside = guest.wrapping_sub(self.last.guest);
            if inside >= self.last.len {
                self.look_up(guest)?;
                continue;
            }
            let here = left.min(self.last.len - inside);
            let place = self.place.ok_or(Fault::Address)?;
            // A region is not larger than the address space, so the numbers fit.
            take(place.part(inside as usize, here as usize), guest);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            guest = guest.checked_add(here).ok_or(Fault::Address)?;
        }
    }

    /// Where an address probably is: only to be prefetched.
    #[inline]
    pub fn hint(&self, guest: u64) -> Option<*const u8> {
        let inside = guest.wrapping_sub(self.last.guest);
        (inside < self.last.len).then_some(())?;
        Some(self.place?.address().wrapping_add(inside as usize))
    }

    #[cold]
    fn look_up(&mut self, guest: u64) -> Result<(), Fault> {
        let (location, region) = self.memory.holding(guest).ok_or(Fault::Address)?;
        self.place = region.place(0, region.len());
        self.last = *location;
        Ok(())
    }
}
