//! Bounds on the cost of an archive: a hundred bytes of it can ask for any amount of memory or disk.
//!
//! Sizes are looked at before bytes are: those of files against the free space, those of names and
//! of the members that describe others (GNU long names, PAX records) against fixed limits, because
//! the reader keeps the latter in memory.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use super::error::Error;

/// More members than any image has.
const MAX_ENTRIES: u64 = 1_000_000;

/// The kernel takes no longer path (`PATH_MAX`, limits.h).
pub(super) const MAX_NAME_BYTES: usize = 4096;

/// All names together; a large image has 20 MB of them.
const MAX_NAMES_BYTES: u64 = 256 << 20;

/// The description of one member: its header, long names, PAX records with extended attributes,
/// and the map of a sparse file.
const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;

/// The share of free space that an image may take, in percent.
const SHARE_OF_FREE: u64 = 80;

#[derive(Debug, Clone)]
pub(super) struct Budget {
    entries: u64,
    names: u64,
    bytes: u64,
    given: u64,
}

impl Budget {
    pub(super) fn in_free_space(dir: &Path) -> Result<Self, Error> {
        let stat = rustix::fs::statvfs(dir).map_err(|e| Error::io("look at", dir)(e.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let mut budget = Self::of_bytes(free / 100 * SHARE_OF_FREE);
        // Some file systems make inodes as needed, and say that they have none.
        if stat.f_files > 0 {
            budget.entries = budget.entries.min(stat.f_favail / 100 * SHARE_OF_FREE);
        }
        Ok(budget)
    }

    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self {
            entries: MAX_ENTRIES,
            names: MAX_NAMES_BYTES,
            bytes,
            given: bytes,
        }
    }

    pub(super) fn take(&mut self, name: &[u8], size: u64) -> Result<(), String> {
        check_name(name)?;
        let left = |left: u64, wanted: u64, what: &str| {
            left.checked_sub(wanted).ok_or_else(|| what.to_owned())
        };
        self.entries = left(
            self.entries,
            1,
            "it has more members than there is room for",
        )?;
        self.names = left(self.names, name.len() as u64, "its names are too long")?;
        self.bytes = self.bytes.checked_sub(size).ok_or_else(|| {
            let given = self.given >> 20;
            format!("it unpacks to more than {given} MiB, which is most of the free space here")
        })?;
        Ok(())
    }
}

/// A name that no file can have is a mistake or an attack.
pub(super) fn check_name(name: &[u8]) -> Result<(), String> {
    match name.len() {
        0..=MAX_NAME_BYTES => Ok(()),
        length => Err(format!(
            "a name of {length} bytes is longer than a path can be"
        )),
    }
}

/// Says how much may be read from a [`Metered`] source until it is asked again.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Rc<Cell<u64>>);

impl Meter {
    /// For the description of the next member, when all of the former one has been read.
    pub(super) fn allow_description(&self) {
        self.0.set(MAX_DESCRIPTION_BYTES);
    }

    /// For `bytes` of contents, up to the end of their last block.
    pub(super) fn allow(&self, bytes: u64) {
        self.0.set(bytes.saturating_add(512));
    }

    pub(super) fn of<R>(&self, source: R) -> Metered<R> {
        Metered {
            source,
            meter: self.clone(),
        }
    }
}

/// A source from which no more is read than its meter allows.
#[derive(Debug)]
pub(super) struct Metered<R> {
    source: R,
    meter: Meter,
}

impl<R> Metered<R> {
    pub(super) fn into_inner(self) -> R {
        self.source
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.meter.0.get();
        if left == 0 && !buf.is_empty() {
            let reason = "what describes a member is larger than 1 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let length = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.source.read(&mut buf[..length])?;
        self.meter.0.set(left - read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.source.seek(to)
    }
}
