//! A frame into a guest's buffers: as many chains as it needs, when the guest can merge them.

use super::chain::{Chain, Direction, Piece};
use super::dirty::DirtyLog;
use super::fault::Fault;
use super::queue::Queue;
use crate::frames::Segment;

/// Most chains, and most pieces of them, for one frame: what a guest may make a frame to it cost. The longest
/// frame takes 43 chains of a driver that sizes its buffers for Ethernet, and 129 of 512 bytes.
const MAX_CHAINS: usize = 256;
const MAX_PIECES: usize = 1024;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the guest's memory, and noted as used.
    Done,
    /// The guest offers too few buffers.
    NoBuffer,
    /// The next buffer is too small, and the guest cannot merge buffers.
    TooLong,
    /// The guest's buffers are so small that the frame would take too many of them.
    Cramped,
}

/// A frame to deliver.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The virtio header; of twelve bytes the last two are the number of buffers, filled in here.
    pub header: [u8; 12],
    /// How many of its bytes the guest expects: ten or twelve.
    pub header_bytes: usize,
    /// The frame's first bytes.
    pub head: &'a [u8],
    /// And the rest.
    pub rest: &'a [Segment],
    /// Bytes of both.
    pub bytes: u32,
}

/// The buffers of one frame; used again for every frame.
#[derive(Debug, Default)]
pub struct Buffers {
    chain: Chain,
    /// Heads of the chains, with their bytes.
    heads: Vec<(u16, u64)>,
}

impl Buffers {
    /// Copies a frame into the next buffers of a ring. The guest sees it when the ring is published.
    ///
    /// # Errors
    ///
    /// What the guest did wrong with its ring.
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
        let header = with_buffers(frame.header, self.heads.len() as u16);
        let mut writer = Writer::new(self.chain.pieces());
        writer.write_header(&header, frame.header_bytes);
        writer.write(frame.head);
        for &segment in frame.rest {
            writer.write_segment(segment);
        }
        if let Some(log) = log {
            note(self.chain.pieces(), need, log);
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

/// A header with the number of buffers in it; as one number, because a whole that is read waits for the part that was
/// just written.
#[inline]
fn with_buffers(header: [u8; 12], buffers: u16) -> [u8; 12] {
    let [rest @ .., _, _] = header;
    let mut all = [0; 16];
    all[..10].copy_from_slice(&rest);
    let all = u128::from_le_bytes(all) | u128::from(buffers) << 80;
    let mut header = [0; 12];
    header.copy_from_slice(&all.to_le_bytes()[..12]);
    header
}

/// Notes the first `bytes` bytes of the pieces as written: before the guest, or its copy on another
/// host, can see them.
fn note(pieces: &[Piece], bytes: u64, log: &DirtyLog) {
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

/// Writes through pieces, one after the other.
#[derive(Debug)]
struct Writer<'a> {
    pieces: &'a [Piece],
    /// How much of the first piece is written.
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(pieces: &'a [Piece]) -> Writer<'a> {
        Writer { pieces, at: 0 }
    }

    /// The next place to write to; the caller has gathered enough.
    #[inline]
    fn next(&mut self) -> Option<super::Place> {
        while let Some(piece) = self.pieces.first() {
            if self.at < piece.place.bytes() {
                return Some(piece.place.part(self.at, usize::MAX));
            }
            self.pieces = &self.pieces[1..];
            self.at = 0;
        }
        None
    }

    /// Writes the header's first bytes; mostly it lies in one piece, and has twelve.
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
