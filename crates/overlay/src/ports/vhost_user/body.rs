//! The frame in a chain.

use crate::frames::Segment;
use crate::rings::Piece;

/// The part of a chain behind its virtio header.
#[derive(Clone)]
pub(super) struct Body<'a> {
    pieces: &'a [Piece],
    at: usize,
}

impl<'a> Body<'a> {
    /// Reads a header of 10 or 12 bytes once, over all pieces that it spans (CVE-2022-2132 in DPDK); none if the chain ends
    /// in it.
    #[inline]
    pub fn after(pieces: &'a [Piece], header_bytes: usize) -> Option<([u8; 12], Body<'a>)> {
        let first = pieces.first()?.place;
        match first.read_header() {
            Some(header) if header_bytes == 12 && first.bytes() > 12 => {
                Some((header, Body { pieces, at: 12 }))
            }
            _ => Body::after_pieces(pieces, header_bytes),
        }
    }

    #[cold]
    fn after_pieces(pieces: &'a [Piece], header_bytes: usize) -> Option<([u8; 12], Body<'a>)> {
        let mut header = [0; 12];
        let mut body = Body { pieces, at: 0 };
        let mut read = 0;
        while read < header_bytes {
            let place = body.pieces.first()?.place;
            let here = place.part(body.at, usize::MAX);
            let here = here.read(&mut header[read..header_bytes]);
            read += here;
            body.at += here;
            if body.at == place.bytes() {
                body.pieces = &body.pieces[1..];
                body.at = 0;
            }
        }
        Some((header, body))
    }
}

impl Iterator for Body<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let (first, rest) = self.pieces.split_first()?;
        let segment = first.place.part(self.at, usize::MAX).segment();
        self.pieces = rest;
        self.at = 0;
        Some(segment)
    }
}
