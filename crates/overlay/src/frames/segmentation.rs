//! Software checksums and segmentation, for receivers without these offloads.
//!
//! The result is in the caller's [`Arena`]: for each piece new headers, and a list of the borrowed memory of its payload,
//! ready for an iovec. Payload is read once, for the checksum, and never copied (except the few bytes in the head). The
//! arena reuses its memory, so nothing is allocated once it has grown.
//!
//! The rules are Linux' (`tcp_gso_segment`, `__udp_gso_segment`): sequence numbers and IPv4 identifications count up, FIN
//! and PSH stay with the last segment and CWR with the first, every length and checksum is rewritten.

use std::ops::Range;

use super::batch::{Batch, Frame, HEAD};
use super::checksum::Sum;
use super::headers::{Headers, Refused, put};
use super::offload::Gso;
use super::sys::Segment;

/// Maximum number of pieces of one frame: 64 KiB in segments of 64 bytes.
pub const MAX_PIECES: usize = 1024;

const MAX_HEADERS: usize = 2 * HEAD;

/// Pieces of frames, each with its own head and a borrowed rest.
#[derive(Debug, Default)]
pub struct Arena {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    head: (u32, u32),
    rest: (u32, u32),
    len: u32,
}

impl Arena {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segments.clear();
        self.pieces.clear();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The head of a piece: prefix and start of the frame.
    #[must_use]
    pub fn head(&self, piece: usize) -> &[u8] {
        let (from, to) = self.pieces[piece].head;
        &self.bytes[from as usize..to as usize]
    }

    /// The rest of a piece, in the memory that the batch borrows.
    #[must_use]
    pub fn rest(&self, piece: usize) -> &[Segment] {
        let (from, to) = self.pieces[piece].rest;
        &self.segments[from as usize..to as usize]
    }

    /// Length of a piece, with the prefix.
    #[must_use]
    pub fn bytes(&self, piece: usize) -> usize {
        self.pieces[piece].len as usize
    }

    pub fn add(&mut self, prefix: &[u8], batch: &Batch, frame: &Frame) {
        let start = self.begin(prefix);
        self.bytes.extend_from_slice(frame.head());
        let first = self.segments.len();
        self.segments.extend_from_slice(batch.rest(frame));
        self.end(start, first, prefix.len() + frame.len as usize);
    }

    pub fn slice(&mut self, prefix: &[u8], batch: &Batch, frame: &Frame, part: Range<usize>) {
        let start = self.begin(prefix);
        let head = frame.head();
        let here = &head[part.start.min(head.len())..part.end.min(head.len())];
        self.bytes.extend_from_slice(here);
        let first = self.segments.len();
        let mut far = Payload::new(batch, frame, part.start.max(head.len()));
        far.take(&mut self.segments, part.len() - here.len());
        self.end(start, first, prefix.len() + part.len());
    }

    /// Adds a piece without a borrowed rest: the bytes that `write` appends.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let first = self.segments.len();
        self.end(start, first, self.bytes.len() - start);
    }

    /// Adds an unsegmented frame with its checksum computed. Errors: a checksum beyond `MAX_HEADERS` or the frame.
    pub fn complete(&mut self, prefix: &[u8], batch: &Batch, frame: &Frame) -> Result<(), Refused> {
        let Some((from, offset)) = frame.offload.checksum else {
            self.add(prefix, batch, frame);
            return Ok(());
        };
        let (from, offset) = (usize::from(from), usize::from(offset));
        let field = from + offset;
        let (header, given) = header_of(batch, frame);
        let header = &header[..given];
        if field + 2 > header.len() || from > header.len() {
            return Err(Refused::Headers);
        }
        let start = self.begin(prefix);
        self.bytes.extend_from_slice(header);
        let first = self.segments.len();
        let mut rest = Payload::new(batch, frame, header.len());
        rest.take(&mut self.segments, usize::MAX);
        let mut sum = Sum::default();
        sum.add(&header[from..]);
        for segment in &self.segments[first..] {
            sum.add_segment(*segment);
        }
        let at = start + prefix.len() + field;
        // Zero means "no checksum" only in UDP, whose sum is at offset 6 (RFC 768).
        let is_udp = offset == 6;
        self.bytes[at..at + 2].copy_from_slice(&if is_udp {
            sum.finish_nonzero()
        } else {
            sum.finish()
        });
        self.end(start, first, prefix.len() + frame.len as usize);
        Ok(())
    }

    /// Segments a frame into pieces with `size` bytes of payload (the sender's [`gso_size`](super::Offload::gso_size), or
    /// less for TCP), each behind a copy of `prefix`; returns their number. Adds nothing on an error.
    pub fn cut(
        &mut self,
        prefix: &[u8],
        batch: &Batch,
        frame: &Frame,
        size: u16,
    ) -> Result<usize, Refused> {
        let (header, given) = header_of(batch, frame);
        let headers = checked(frame, &header[..given])?;
        let header = &header[..headers.payload];
        let whole = frame.len as usize - header.len();
        let size = match frame.offload.gso {
            Gso::Udp => usize::from(frame.offload.gso_size),
            _ => usize::from(size.min(frame.offload.gso_size)),
        };
        let count = whole.div_ceil(size.max(1)).max(1);
        if size == 0 || count > MAX_PIECES {
            return Err(Refused::TooMany);
        }
        // The part of the payload in the head.
        let close = &frame.head()[header.len().min(frame.head().len())..];
        let mut far = Payload::new(batch, frame, header.len().max(frame.head().len()));
        for number in 0..count {
            let from = number * size;
            let len = size.min(whole - from);
            let start = self.begin(prefix);
            self.bytes.extend_from_slice(header);
            let here = &close[from.min(close.len())..(from + len).min(close.len())];
            self.bytes.extend_from_slice(here);
            let first = self.segments.len();
            far.take(&mut self.segments, len - here.len());
            let ends = number + 1 == count;
            let (at, part) = (start + prefix.len(), from..from + len);
            self.finish_piece(at, first, &headers, number, part, ends);
            self.end(start, first, prefix.len() + header.len() + len);
        }
        Ok(count)
    }

    /// Rewrites the headers of a piece with this part of the payload.
    fn finish_piece(
        &mut self,
        start: usize,
        first: usize,
        headers: &Headers,
        number: usize,
        part: Range<usize>,
        last: bool,
    ) {
        let piece = &mut self.bytes[start..];
        let (network, transport) = (headers.network, headers.transport);
        let behind = headers.payload - transport + part.len();
        if !headers.ipv6 {
            let id = u16::from_be_bytes([piece[network + 4], piece[network + 5]]);
            put(piece, network + 4, usize::from(id) + number);
        }
        headers.set_end(piece, transport + behind);
        let field = if headers.tcp {
            let tcp = &mut piece[transport..headers.payload];
            segment_of_tcp(tcp, number, part.start, last);
            transport + 16
        } else {
            put(piece, transport + 4, behind);
            transport + 6
        };
        put(piece, field, 0);
        let mut sum = headers.pseudo(piece, behind);
        sum.add(&piece[transport..]);
        for segment in &self.segments[first..] {
            sum.add_segment(*segment);
        }
        let piece = &mut self.bytes[start..];
        piece[field..field + 2].copy_from_slice(&if headers.tcp {
            sum.finish()
        } else {
            sum.finish_nonzero()
        });
    }

    fn begin(&mut self, prefix: &[u8]) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        start
    }

    fn end(&mut self, start: usize, first: usize, len: usize) {
        let number = |n: usize| u32::try_from(n).expect("an arena stays below 4 GiB");
        self.pieces.push(Piece {
            head: (number(start), number(self.bytes.len())),
            rest: (number(first), number(self.segments.len())),
            len: number(len),
        });
    }
}

/// The frame's headers: the copied head and, for longer headers, more bytes copied now and once.
fn header_of(batch: &Batch, frame: &Frame) -> ([u8; MAX_HEADERS], usize) {
    let mut header = [0; MAX_HEADERS];
    let head = frame.head();
    header[..head.len()].copy_from_slice(head);
    let mut len = head.len();
    for segment in batch.rest(frame) {
        len += segment.copy_to(&mut header[len..]);
    }
    (header, len)
}

/// The headers of a frame, if they match its offload header.
fn checked(frame: &Frame, header: &[u8]) -> Result<Headers, Refused> {
    let headers = Headers::parse(header)?;
    let as_said = match frame.offload.gso {
        Gso::None => false,
        Gso::Tcp4 => headers.tcp && !headers.ipv6,
        Gso::Tcp6 => headers.tcp && headers.ipv6,
        Gso::Udp => !headers.tcp,
    };
    if !as_said {
        return Err(Refused::Protocol);
    }
    let offset = if headers.tcp { 16 } else { 6 };
    match frame.offload.checksum {
        Some((start, at)) if usize::from(start) == headers.transport && at == offset => Ok(headers),
        _ => Err(Refused::Tunnel),
    }
}

fn segment_of_tcp(header: &mut [u8], number: usize, from: usize, last: bool) {
    const FIN: u8 = 0x01;
    const PSH: u8 = 0x08;
    const CWR: u8 = 0x80;
    let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let sequence = sequence.wrapping_add(u32::try_from(from).unwrap_or(0));
    header[4..8].copy_from_slice(&sequence.to_be_bytes());
    if !last {
        header[13] &= !(FIN | PSH);
    }
    if number > 0 {
        header[13] &= !CWR;
    }
}

struct Payload<'a> {
    segments: &'a [Segment],
    skip: usize,
}

impl<'a> Payload<'a> {
    /// From `offset` in the frame on, which is at or behind the end of the head.
    fn new(batch: &'a Batch, frame: &Frame, offset: usize) -> Payload<'a> {
        Payload {
            segments: batch.rest(frame),
            skip: offset - frame.head().len(),
        }
    }

    /// Adds the next `len` bytes, or the rest, to `to`.
    fn take(&mut self, to: &mut Vec<Segment>, mut len: usize) {
        while let Some(first) = self.segments.first() {
            let part = first.slice(self.skip, len);
            if !part.is_empty() {
                to.push(part);
            }
            len -= part.len();
            self.skip += part.len();
            if self.skip < first.len() {
                return;
            }
            self.skip -= first.len();
            self.segments = &self.segments[1..];
        }
    }
}
