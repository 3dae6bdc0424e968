//! The calls that are held, written down outside of this process: should it end, its keeper answers them.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use rustix::fs::{MemfdFlags, memfd_create};

/// A record: the session's number and the call's, each of 8 bytes in the machine's order.
const RECORD_BYTES: usize = 16;

/// A memory file of records that two processes share.
pub fn new_file() -> io::Result<OwnedFd> {
    Ok(memfd_create("latlab-streams", MemfdFlags::CLOEXEC)?)
}

/// Records in a file, by whichever slots are free.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    free: RefCell<Vec<u64>>,
    end: RefCell<u64>,
}

/// A call that is written down until this is dropped.
#[derive(Debug)]
pub struct Entry {
    ledger: Rc<Ledger>,
    slot: u64,
}

/// A call found in a file: its session, by its number from 0, and its own number.
pub type Found = (usize, u64);

impl Ledger {
    pub fn new(file: OwnedFd) -> Rc<Self> {
        Rc::new(Self {
            file: file.into(),
            free: RefCell::default(),
            end: RefCell::default(),
        })
    }

    pub fn note(self: &Rc<Self>, session: usize, call: u64) -> Entry {
        let free = self.free.borrow_mut().pop();
        let slot = free.unwrap_or_else(|| {
            let mut end = self.end.borrow_mut();
            *end += 1;
            *end - 1
        });
        // Sessions are told from no record at all by their numbers plus one.
        self.write(slot, session as u64 + 1, call);
        Entry {
            ledger: self.clone(),
            slot,
        }
    }

    fn write(&self, slot: u64, session: u64, call: u64) {
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&session.to_ne_bytes());
        record[8..].copy_from_slice(&call.to_ne_bytes());
        // Memory that is there already, but for a new page once in a while. What cannot be written is not kept.
        self.file
            .write_all_at(&record, slot * RECORD_BYTES as u64)
            .ok();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.write(self.slot, 0, 0);
        self.ledger.free.borrow_mut().push(self.slot);
    }
}

/// The calls that are written down in a file.
pub fn read(file: &File) -> io::Result<Vec<Found>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    let records = bytes.chunks_exact(RECORD_BYTES);
    let records = records.map(|record| (number(&record[..8]), number(&record[8..])));
    Ok(records
        .filter(|(session, _)| *session > 0)
        .filter_map(|(session, call)| Some((usize::try_from(session - 1).ok()?, call)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_there_until_they_are_answered_and_slots_are_used_again() {
        let file = new_file().unwrap();
        let shared = File::from(file.try_clone().unwrap());
        let ledger = Ledger::new(file);
        let first = ledger.note(0, 7);
        let _second = ledger.note(3, 8);
        assert_eq!(read(&shared).unwrap(), [(0, 7), (3, 8)]);
        drop(first);
        assert_eq!(read(&shared).unwrap(), [(3, 8)]);
        let _third = ledger.note(1, 9);
        assert_eq!(read(&shared).unwrap(), [(1, 9), (3, 8)]);
    }
}
