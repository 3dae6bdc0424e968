//! A guest's memory: regions of files that its VMM shares.
//!
//! Descriptors hold guest-physical addresses, ring addresses are the VMM's virtual ones. A table of regions is immutable:
//! hot-plug makes a new one that shares the regions that stay.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::fault::Fault;
use super::sys::{Area, Place, Region};

/// Maximum number of regions: the file descriptors that fit into one message, and QEMU's default of slots.
pub const MAX_REGIONS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub guest: u64,
    pub user: u64,
    pub len: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("cannot map the guest's memory at {guest:#x}: {source}")]
    Map { guest: u64, source: io::Error },
    #[error("the region at {0:#x} goes beyond the last address")]
    Wraps(u64),
    #[error("the region at {0:#x} overlaps another")]
    Overlaps(u64),
    #[error("more than {MAX_REGIONS} regions")]
    TooMany,
    #[error("there is no region at {0:#x}")]
    Missing(u64),
}

#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// By guest-physical address.
    regions: Vec<(Location, Arc<Region>)>,
}

impl Memory {
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
        if self.regions.len() == MAX_REGIONS {
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

    pub fn without(&self, at: Location) -> Result<Memory, MemoryError> {
        let index = self.regions.iter().position(|(other, _)| *other == at);
        let index = index.ok_or(MemoryError::Missing(at.guest))?;
        let mut regions = self.regions.clone();
        regions.remove(index);
        Ok(Memory { regions })
    }

    #[must_use]
    pub fn lost(&self) -> bool {
        self.regions.iter().any(|(_, region)| region.lost())
    }

    /// Memory of a ring, by the VMM's address; within one region.
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

    fn holding(&self, guest: u64) -> Option<&(Location, Arc<Region>)> {
        let after = self.regions.partition_point(|(l, _)| l.guest <= guest);
        let found = self.regions.get(after.checked_sub(1)?)?;
        (guest - found.0.guest < found.0.len).then_some(found)
    }
}

/// A memory with its last region cached: most buffers of a guest are in the same one.
#[derive(Debug)]
pub struct Lookup {
    memory: Arc<Memory>,
    last: Location,
    /// The whole last region.
    place: Option<Place>,
}

impl Lookup {
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

    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Calls `take` with the places of `len` bytes from `guest` on, and their addresses: one, or several across
    /// regions. Errors: not all of it is the guest's memory; places that were taken before are invalid then.
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

    /// The probable place of an address, for a prefetch.
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
