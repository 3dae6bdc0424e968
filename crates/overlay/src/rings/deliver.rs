//! Copies a frame into a guest's buffers: into several chains if the guest can merge them.

use super::chain::{Chain, Direction, Piece};
use super::dirty::DirtyLog;
use super::fault::Fault;
use super::queue::Queue;
use super::sys::Place;
use crate::frames::Segment;

/// Maximum number of chains and pieces of one frame, which bounds its cost. The longest frame takes 43 chains of a driver
/// with buffers for Ethernet, and 129 of 512 bytes.
const MAX_CHAINS: usize = 256;
const MAX_PIECES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The frame is in the guest's memory, and its chains are used.
    Done,
    NoBuffer,
    /// The next buffer is too small, and the guest does not merge buffers.
    TooLong,
    /// The buffers are so small that the frame would take too many.
    Cramped,
}

#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The virtio header; the last two of 12 bytes are the number of buffers, filled in here.
    pub header: [u8; 12],
    /// Length of the header for this guest: 10 or 12.
    pub header_bytes: usize,
    pub head: &'a [u8],
    pub rest: &'a [Segment],
    /// Length of head and rest.
    pub bytes: u32,
}

/// The buffers of one frame; reused for every frame.
#[derive(Debug, Default)]
pub struct Buffers {
    chain: Chain,
    /// Heads of the chains, with their bytes.
    heads: Vec<(u16, u64)>,
}

impl Buffers {
    /// Copies a frame into the next buffers of a ring. The guest sees it once the ring is published.
    #[inline]
    pub fn deliver(
        &mut self,
        queue: &mut Queue,
        mergeable: bool,
        frame: Outgoing<'_>,
        log: Option<&DirtyLog>,
    ) -> Result<Delivery, Fault> {
        let need = frame.header_bytes as u64 + u64::from(frame.bytes);
        match self.gather(queue, need, mergeable)? {
            Delivery::Done => {}
            other => return Ok(other),
        }
        // A ring has at most 32768 chains.
        let header = with_buffer_count(frame.header, self.heads.len() as u16);
        let mut writer = Writer::new(self.chain.pieces());
        writer.write_header(&header, frame.header_bytes);
        writer.write(frame.head);
        for &segment in frame.rest {
            writer.write_segment(segment);
        }
        if let Some(log) = log {
            log_written(self.chain.pieces(), need, log);
        }
        let mut left = need;
        for &(head, bytes) in &self.heads {
            let here = left.min(bytes);
            left -= here;
            queue.push(head, u32::try_from(here).unwrap_or(u32::MAX));
        }
        Ok(Delivery::Done)
    }

    /// Takes chains for `need` bytes, or none.
    #[inline]
    fn gather(&mut self, queue: &mut Queue, need: u64, mergeable: bool) -> Result<Delivery, Fault> {
        self.chain.clear();
        self.heads.clear();
        if queue.is_known_to_lack(need)? {
            return Ok(Delivery::NoBuffer);
        }
        let mut taken = 0;
        loop {
            if queue.ready()? == 0 {
                queue.rewind(taken);
                queue.lacks(self.chain.bytes());
                return Ok(Delivery::NoBuffer);
            }
            let before = self.chain.bytes();
            let head = queue.pop(Direction::ToGuest, &mut self.chain)?;
            taken += 1;
            self.heads.push((head, self.chain.bytes() - before));
            if self.chain.bytes() >= need {
                return Ok(Delivery::Done);
            }
            if !mergeable {
                queue.rewind(taken);
                return Ok(Delivery::TooLong);
            }
            if self.heads.len() >= MAX_CHAINS || self.chain.pieces().len() >= MAX_PIECES {
                queue.rewind(taken);
                return Ok(Delivery::Cramped);
            }
        }
    }
}

/// Inserts the number of buffers into a header. As one number, because reading the whole waits for a part that was just
/// written (store forwarding).
#[inline]
fn with_buffer_count(header: [u8; 12], buffers: u16) -> [u8; 12] {
    let [rest @ .., _, _] = header;
    let mut all = [0; 16];
    all[..10].copy_from_slice(&rest);
    let all = u128::from_le_bytes(all) | u128::from(buffers) << 80;
    let mut header = [0; 12];
    header.copy_from_slice(&all.to_le_bytes()[..12]);
    header
}

/// Logs the first `bytes` bytes of the pieces as written, before the guest or its copy on another host can see them.
fn log_written(pieces: &[Piece], bytes: u64, log: &DirtyLog) {
    let mut left = bytes;
    for piece in pieces {
        let here = left.min(piece.place.bytes() as u64);
        if here == 0 {
            return;
        }
        log.written(piece.guest, here);
        left -= here;
    }
}

#[derive(Debug)]
struct Writer<'a> {
    pieces: &'a [Piece],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(pieces: &'a [Piece]) -> Writer<'a> {
        Writer { pieces, at: 0 }
    }

    #[inline]
    fn next(&mut self) -> Option<Place> {
        while let Some(piece) = self.pieces.first() {
            if self.at < piece.place.bytes() {
                return Some(piece.place.part(self.at, usize::MAX));
            }
            self.pieces = &self.pieces[1..];
            self.at = 0;
        }
        None
    }

    /// Writes the header; mostly it has 12 bytes and fits one piece.
    #[inline]
    fn write_header(&mut self, header: &[u8; 12], bytes: usize) {
        match self.pieces.first() {
            Some(piece) if bytes == 12 && piece.place.write_header(*header) => self.at = 12,
            _ => self.write(&header[..bytes]),
        }
    }

    #[inline]
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(place) = self.next() else { return };
            let written = place.write(bytes);
            self.at += written;
            bytes = &bytes[written..];
        }
    }

    #[inline]
    fn write_segment(&mut self, mut segment: Segment) {
        while !segment.is_empty() {
            let Some(place) = self.next() else { return };
            let written = place.write_segment(segment);
            self.at += written;
            segment = segment.slice(written, usize::MAX);
        }
    }
}
