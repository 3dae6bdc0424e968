//! The receiving half of a TCP link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use latlab_wire::overlay::{MAX_FRAME_BYTES, PrivateHeader, record_bytes};

use super::reconnector::Reconnector;
use super::shared::{LENGTH_BYTES, Shared};
use crate::endpoints::{DropReason, Receive};
use crate::frames::{Batch, Offload};
use crate::links::sys::Buffer;

const INBOX_BYTES: usize = 8 * (MAX_FRAME_BYTES + 64);

#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    _reconnector: Arc<Reconnector>,
    inbox: Buffer,
    /// Bytes of the inbox that were read, and that were delivered.
    read: usize,
    taken: usize,
    epoch: u64,
    borrowed: bool,
    /// The connection may have more than fits.
    more: bool,
}

impl Receiver {
    pub(super) fn new(shared: Arc<Shared>, reconnector: Arc<Reconnector>) -> Receiver {
        Receiver {
            shared,
            _reconnector: reconnector,
            inbox: Buffer::new(INBOX_BYTES),
            read: 0,
            taken: 0,
            epoch: 0,
            borrowed: false,
            more: false,
        }
    }

    /// Reads what has arrived, behind an incomplete record.
    fn fill(&mut self) {
        let shared = self.shared.clone();
        let mut current = shared.lock();
        let Some(stream) = current.as_mut() else {
            return;
        };
        let left = if stream.epoch == self.epoch {
            let left = self.read - self.taken;
            let (from, to) = (self.taken, self.read);
            self.inbox.part_mut(0..to).copy_within(from..to, 0);
            left
        } else {
            self.epoch = stream.epoch;
            0
        };
        (self.taken, self.read, self.more) = (0, left, false);
        loop {
            let room = self.read..self.inbox.len();
            if room.is_empty() {
                self.more = true;
                return;
            }
            match stream.read(self.inbox.part_mut(room)) {
                Ok(0) => return shared.end(&mut current),
                Ok(len) => self.read += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return shared.end(&mut current),
            }
        }
    }

    /// The next complete record. A malformed one ends the connection, because the start of the next is unknown.
    fn next(&mut self) -> Option<std::ops::Range<usize>> {
        match record_bytes(self.inbox.part(self.taken..self.read)) {
            Ok(Some(len)) if self.read - self.taken >= LENGTH_BYTES + len => {
                let start = self.taken + LENGTH_BYTES;
                self.taken = start + len;
                Some(start..start + len)
            }
            Ok(_) => None,
            Err(_) => {
                let counters = &self.shared.config.counters;
                counters.drop_frames(DropReason::Malformed, 1);
                self.taken = self.read;
                let shared = self.shared.clone();
                shared.end(&mut shared.lock());
                None
            }
        }
    }

    fn push(&self, record: std::ops::Range<usize>, batch: &mut Batch) -> Result<usize, DropReason> {
        let bytes = self.inbox.part(record.clone());
        let (header, frame) = PrivateHeader::parse(bytes).map_err(|_| DropReason::Malformed)?;
        if frame.len() != header.whole as usize {
            return Err(DropReason::Malformed);
        }
        let config = &self.shared.config;
        if header.origin == config.origin {
            return Err(DropReason::Loop);
        }
        let offload =
            Offload::parse(&header.offload, frame.len()).map_err(|_| DropReason::Malformed)?;
        let piece = self
            .inbox
            .segment(record.start + PrivateHeader::BYTES..record.end);
        batch
            .push(config.id, header.network, offload, [piece])
            .map_err(|_| DropReason::Malformed)?;
        if let Some(frame) = batch.last_mut() {
            frame.hops = header.hops;
            frame.origin = header.origin;
        }
        Ok(header.whole as usize)
    }

    /// Delivers complete records; returns the number of frames and of bytes.
    fn deliver(&mut self, batch: &mut Batch) -> (u64, u64) {
        let (mut frames, mut bytes) = (0, 0);
        while batch.room() > 0 {
            let Some(record) = self.next() else { break };
            match self.push(record, batch) {
                Ok(len) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Err(reason) => self.shared.config.counters.drop_frames(reason, 1),
            }
        }
        (frames, bytes)
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let mut got = self.deliver(batch);
        if got.0 == 0 && !self.borrowed {
            self.fill();
            got = self.deliver(batch);
        }
        if got.0 > 0 {
            self.borrowed = true;
            self.shared.config.counters.received.add(got.0, got.1);
        }
        usize::try_from(got.0).unwrap_or(usize::MAX)
    }

    fn complete(&mut self) {
        self.borrowed = false;
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.readable.as_fd()
    }

    fn arm(&mut self) -> bool {
        let next = record_bytes(self.inbox.part(self.taken..self.read));
        let whole = |len: usize| self.read - self.taken >= LENGTH_BYTES + len;
        self.more || !matches!(next, Ok(len) if !len.is_some_and(whole))
    }

    fn disarm(&mut self) {}
}
