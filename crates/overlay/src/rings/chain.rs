//! A chain of buffers, followed once with every descriptor checked.

use super::fault::Fault;
use super::layout::{DESCRIPTOR, Descriptor, INDIRECT, NEXT, WRITE};
use super::memory::Lookup;
use super::sys::Place;

/// Maximum length of a guest's frame: 64 KiB of IP, Ethernet with two VLAN tags, and the virtio header.
const MAX_BYTES: u32 = 65535 + 22 + 12;

/// Maximum number of descriptors of a chain, as in QEMU: it bounds the cost of one frame.
const MAX_DESCRIPTORS: u16 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The guest sends: we read.
    FromGuest,
    /// The guest receives: we write.
    ToGuest,
}

/// A contiguous part of a chain, with its guest-physical address for the log of written pages.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    pub place: Place,
    pub guest: u64,
}

/// The buffers of one chain, or of several that hold one frame. Reused for every frame, so nothing is allocated.
#[derive(Debug, Default)]
pub struct Chain {
    pieces: Vec<Piece>,
    bytes: u64,
}

impl Chain {
    #[inline]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }

    /// Appends the chain of a first descriptor in `table`, which has `size` entries. A chain has no more descriptors than
    /// that (virtio 1.2, 2.7.5.3.1), so loops end too.
    #[inline]
    pub(super) fn follow(
        &mut self,
        first: Descriptor,
        table: Place,
        size: u16,
        indirect: bool,
        direction: Direction,
        lookup: &mut Lookup,
    ) -> Result<(), Fault> {
        if first.has(INDIRECT) {
            return self.follow_indirect(first, size, indirect, direction, lookup);
        }
        let mut descriptor = first;
        let mut left = size.min(MAX_DESCRIPTORS);
        loop {
            self.take(descriptor, direction, lookup)?;
            if !descriptor.has(NEXT) {
                return Ok(());
            }
            left = left.checked_sub(1).filter(|&l| l > 0).ok_or(Fault::Loop)?;
            if descriptor.next >= size {
                return Err(Fault::Index);
            }
            let at = usize::from(descriptor.next) * DESCRIPTOR;
            descriptor = Descriptor::new(table.load_descriptor(at));
        }
    }

    #[inline]
    fn take(
        &mut self,
        descriptor: Descriptor,
        direction: Direction,
        lookup: &mut Lookup,
    ) -> Result<(), Fault> {
        if descriptor.has(WRITE) != (direction == Direction::ToGuest) {
            return Err(Fault::Direction);
        }
        if descriptor.has(INDIRECT) {
            return Err(Fault::Indirect);
        }
        if descriptor.len == 0 {
            return Err(Fault::Empty);
        }
        self.bytes += u64::from(descriptor.len);
        if direction == Direction::FromGuest && self.bytes > u64::from(MAX_BYTES) {
            return Err(Fault::Giant);
        }
        let pieces = &mut self.pieces;
        lookup.find(descriptor.address, descriptor.len, |place, guest| {
            pieces.push(Piece { place, guest });
        })
    }

    fn follow_indirect(
        &mut self,
        outer: Descriptor,
        max: u16,
        negotiated: bool,
        direction: Direction,
        lookup: &mut Lookup,
    ) -> Result<(), Fault> {
        let bytes = outer.len as usize;
        if !negotiated || outer.has(NEXT) || bytes == 0 || bytes % DESCRIPTOR != 0 {
            return Err(Fault::Indirect);
        }
        let entries = bytes / DESCRIPTOR;
        let Ok(entries) = u16::try_from(entries) else {
            return Err(Fault::Indirect);
        };
        let mut table = None;
        lookup.find(outer.address, outer.len, |place, _| {
            // Drivers allocate a table in one piece, never across regions.
            table = match table {
                None => Some(Ok(place)),
                Some(_) => Some(Err(Fault::Indirect)),
            };
        })?;
        let table = table.ok_or(Fault::Indirect)??;
        if table.address().align_offset(8) != 0 {
            return Err(Fault::Indirect);
        }
        let mut next = 0;
        for _ in 0..entries.min(max).min(MAX_DESCRIPTORS) {
            let at = usize::from(next) * DESCRIPTOR;
            let descriptor = Descriptor::new(table.load_descriptor(at));
            self.take(descriptor, direction, lookup)?;
            if !descriptor.has(NEXT) {
                return Ok(());
            }
            if descriptor.next >= entries {
                return Err(Fault::Index);
            }
            next = descriptor.next;
        }
        Err(Fault::Loop)
    }
}
