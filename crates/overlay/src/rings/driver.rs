//! A guest's memory and a driver that can do anything, right or wrong, for tests, fuzzing and measurements.
//!
//! One driver serves all, so that a fuzzer's finding becomes a test.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

use super::layout::{
    self, DESCRIPTOR, ENTRIES, FLAGS, INDEX, INDIRECT, NEXT, NO_INTERRUPT, NO_NOTIFY, WRITE,
};
use super::memory::{Location, Memory};
use super::queue::Setup;
use super::sys::Region;

/// A guest's memory: one region of a file, at unrelated guest and VMM addresses.
#[derive(Debug)]
pub struct Guest {
    file: File,
    region: Region,
    location: Location,
}

impl Guest {
    pub const START: u64 = 0x10_0000;
    pub const USER: u64 = 0x7f00_0000_0000;

    pub fn new(bytes: u64) -> io::Result<Guest> {
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        Ok(Guest {
            region: Region::new(&file, 0, bytes)?,
            file,
            location: Location {
                guest: Guest::START,
                user: Guest::USER,
                len: bytes,
            },
        })
    }

    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    #[must_use]
    pub fn location(&self) -> Location {
        self.location
    }

    /// The memory as the device maps it.
    ///
    /// # Panics
    ///
    /// If it cannot be mapped a second time.
    #[must_use]
    pub fn memory(&self) -> Arc<Memory> {
        let memory = Memory::default().with(self.location, &self.file, 0);
        Arc::new(memory.expect("mapped once already"))
    }

    /// Writes bytes; those outside are ignored.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let at = at.wrapping_sub(Guest::START) as usize;
        if let Some(place) = self.region.place(at, bytes.len()) {
            place.write(bytes);
        }
    }

    /// Reads bytes; zeros outside.
    #[must_use]
    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        let at = at.wrapping_sub(Guest::START) as usize;
        if let Some(place) = self.region.place(at, bytes) {
            place.read(&mut to);
        }
        to
    }

    fn read_u16(&self, at: u64) -> u16 {
        let bytes = self.read(at, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Buffer {
    pub address: u64,
    pub len: u32,
    /// `NEXT`, `WRITE`, `INDIRECT`.
    pub flags: u16,
    pub next: u16,
}

impl Buffer {
    #[must_use]
    pub fn read(address: u64, len: u32) -> Buffer {
        Buffer {
            address,
            len,
            ..Buffer::default()
        }
    }

    #[must_use]
    pub fn write(address: u64, len: u32) -> Buffer {
        Buffer {
            flags: WRITE,
            ..Buffer::read(address, len)
        }
    }

    #[must_use]
    pub fn table(address: u64, len: u32) -> Buffer {
        Buffer {
            flags: INDIRECT,
            ..Buffer::read(address, len)
        }
    }

    /// Chains another descriptor.
    #[must_use]
    pub fn then(self, next: u16) -> Buffer {
        Buffer {
            flags: self.flags | NEXT,
            next,
            ..self
        }
    }

    #[must_use]
    pub fn bytes(self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

#[derive(Debug)]
pub struct Driver {
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    offered: u16,
    seen: u16,
}

impl Driver {
    /// A ring at a guest-physical address, a multiple of 16.
    #[must_use]
    pub fn new(at: u64, size: u16) -> Driver {
        let available = at + DESCRIPTOR as u64 * u64::from(size);
        let end = available + layout::available_bytes(size) as u64;
        Driver {
            size,
            descriptors: at,
            available,
            used: end.next_multiple_of(16),
            offered: 0,
            seen: 0,
        }
    }

    #[must_use]
    pub fn end(&self) -> u64 {
        (self.used + layout::used_bytes(self.size) as u64).next_multiple_of(4096)
    }

    #[must_use]
    pub fn setup(&self) -> Setup {
        let user = |at| at - Guest::START + Guest::USER;
        Setup {
            size: self.size,
            descriptors: user(self.descriptors),
            available: user(self.available),
            used: user(self.used),
            event_index: true,
            indirect: true,
        }
    }

    pub fn describe(&self, guest: &Guest, index: u16, buffer: Buffer) {
        let at = self.descriptors + u64::from(index) * DESCRIPTOR as u64;
        guest.write(at, &buffer.bytes());
    }

    pub fn offer(&mut self, guest: &Guest, head: u16) {
        let entry = u64::from(self.offered % self.size);
        let at = self.available + ENTRIES as u64 + 2 * entry;
        guest.write(at, &head.to_le_bytes());
        self.jump(guest, self.offered.wrapping_add(1));
    }

    pub fn jump(&mut self, guest: &Guest, index: u16) {
        self.offered = index;
        guest.write(self.available + INDEX as u64, &index.to_le_bytes());
    }

    /// Suppresses interrupts, or not (without event index).
    pub fn quiet(&self, guest: &Guest, quiet: bool) {
        let flags = u16::from(quiet) * NO_INTERRUPT;
        guest.write(self.available + FLAGS as u64, &flags.to_le_bytes());
    }

    /// Requests an interrupt when the used index passes `index` (with event index).
    pub fn want(&self, guest: &Guest, index: u16) {
        let at = self.available + ENTRIES as u64 + 2 * u64::from(self.size);
        guest.write(at, &index.to_le_bytes());
    }

    /// Whether the device requests kicks (without event index).
    #[must_use]
    pub fn asks_for_kicks(&self, guest: &Guest) -> bool {
        guest.read_u16(self.used + FLAGS as u64) & NO_NOTIFY == 0
    }

    /// The index at which the device requests a kick (with event index).
    #[must_use]
    pub fn wanted(&self, guest: &Guest) -> u16 {
        guest.read_u16(self.used + ENTRIES as u64 + 8 * u64::from(self.size))
    }

    /// The next used entry: head and bytes.
    pub fn used(&mut self, guest: &Guest) -> Option<(u32, u32)> {
        if guest.read_u16(self.used + INDEX as u64) == self.seen {
            return None;
        }
        let entry = u64::from(self.seen % self.size);
        let bytes = guest.read(self.used + ENTRIES as u64 + 8 * entry, 8);
        self.seen = self.seen.wrapping_add(1);
        let word =
            |at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some((word(0), word(4)))
    }
}
