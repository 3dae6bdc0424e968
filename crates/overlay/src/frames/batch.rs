//! A batch: the frames of one pass, in two arenas that are reused.

use super::checksum::Sum;
use super::headers::Headers;
use super::offload::{Gso, Offload};
use super::sys::Segment;
use crate::endpoints::port_id::PortId;

/// Bytes of a frame that are copied: Ethernet, two VLAN tags, IPv6 and a full TCP header fit, or a whole small frame.
pub const HEAD: usize = 128;

/// Maximum number of borrowed segments behind a frame's head. Senders pass them to the kernel in one call, which takes at
/// most 1024 with their headers (`UIO_MAXIOV`, writev(2)).
pub const MAX_SEGMENTS: usize = 512;

/// Maximum number of links that a frame may pass, as for IPv4's TTL (RFC 1700).
pub const HOPS: u8 = 64;

/// VNI of an interface's frame before the dispatcher sets it.
pub const NETWORK_UNKNOWN: u32 = u32::MAX;

/// A frame. The fields that every frame needs are in the first cache line.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Length with the Ethernet header, without the frame check sequence.
    pub len: u32,
    /// VNI.
    pub network: u32,
    pub ingress: PortId,
    head_len: u16,
    first_segment: u32,
    segments: u16,
    /// Links that the frame may still pass (transmitted in a link's private header).
    pub hops: u8,
    /// Number of the daemon where the frame entered the overlay; 0: unknown or this one.
    pub origin: u64,
    pub offload: Offload,
    head: [u8; HEAD],
}

impl Frame {
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    pub(super) fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head[..usize::from(self.head_len)]
    }

    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = self.head;
        [a, b, c, d, e, f]
    }

    #[must_use]
    pub fn source(&self) -> [u8; 6] {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = self.head;
        [a, b, c, d, e, f]
    }

    /// The offload header, with the length of the headers where the frame is to be segmented: Linux requires it.
    #[must_use]
    #[inline]
    pub fn encoded_offload(&self) -> [u8; Offload::BYTES] {
        self.offload.encode(match self.offload.gso {
            Gso::None => 0,
            // Less than a head has bytes.
            _ => Headers::parse(self.head()).map_or(0, |headers| headers.payload as u16),
        })
    }
}

/// Frames of one pass, in order of arrival. [`Batch::push`] refuses frames without an Ethernet header, so addresses can
/// be read unchecked.
#[derive(Debug)]
pub struct Batch {
    /// Reused frames. Unused bytes of a head are not cleared, which would cost as much as the copy of a small frame.
    slots: Vec<Frame>,
    used: usize,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("shorter than an Ethernet header")]
    TooShort,
    /// The receiver has to copy the frame into one buffer first.
    #[error("in more than {MAX_SEGMENTS} segments of memory")]
    TooManySegments,
}

impl Batch {
    #[must_use]
    pub fn new(room: usize) -> Batch {
        let empty = Frame {
            len: 0,
            network: NETWORK_UNKNOWN,
            ingress: PortId(0),
            head_len: 0,
            first_segment: 0,
            segments: 0,
            hops: HOPS,
            origin: 0,
            offload: Offload::default(),
            head: [0; HEAD],
        };
        Batch {
            slots: vec![empty; room],
            used: 0,
            segments: Vec::with_capacity(room * 4),
        }
    }

    #[must_use]
    pub fn room(&self) -> usize {
        self.slots.len() - self.used
    }

    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.slots[..self.used]
    }

    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.slots[..self.used]
    }

    /// The last frame, for a link's hops and origin.
    pub fn last_mut(&mut self) -> Option<&mut Frame> {
        self.frames_mut().last_mut()
    }

    /// The frame's bytes behind the head, in the sender's memory.
    #[must_use]
    pub fn rest(&self, frame: &Frame) -> &[Segment] {
        let first = frame.first_segment as usize;
        &self.segments[first..first + usize::from(frame.segments)]
    }

    /// Appends to the last frame, unless it has [`MAX_SEGMENTS`] already. The caller updates its headers.
    pub(super) fn extend_last(&mut self, segment: Segment) -> bool {
        let frame = self.slots[..self.used].last_mut();
        let Some(frame) = frame.filter(|frame| usize::from(frame.segments) < MAX_SEGMENTS) else {
            return false;
        };
        // The last frame's segments are the last ones.
        self.segments.push(segment);
        frame.segments += 1;
        frame.len += u32::try_from(segment.len()).unwrap_or(u32::MAX);
        true
    }

    /// Adds the last frame's bytes, from an offset in its head on, to a sum.
    pub(super) fn sum_last(&self, from: usize, sum: &mut Sum) {
        if let Some(frame) = self.frames().last() {
            sum.add(frame.head().get(from..).unwrap_or_default());
            for segment in self.rest(frame) {
                sum.add_segment(*segment);
            }
        }
    }

    pub fn clear(&mut self) {
        self.used = 0;
        self.segments.clear();
    }

    /// Adds the frame in `pieces`, in order, and copies its head. Errors: a frame shorter than an Ethernet header, or
    /// in too many pieces.
    ///
    /// # Panics
    ///
    /// If there is no room.
    #[inline]
    pub fn push(
        &mut self,
        ingress: PortId,
        network: u32,
        offload: Offload,
        pieces: impl IntoIterator<Item = Segment>,
    ) -> Result<(), Unfit> {
        assert!(self.room() > 0, "a batch is never filled beyond its room");
        let first_segment = self.segments.len();
        let frame = &mut self.slots[self.used];
        let mut head = 0;
        let mut len = 0;
        for piece in pieces {
            len += piece.len();
            let copied = piece.copy_to(&mut frame.head[head..]);
            head += copied;
            let left = piece.slice(copied, piece.len());
            if !left.is_empty() {
                self.segments.push(left);
            }
        }
        let segments = self.segments.len() - first_segment;
        let (Ok(len), true, true) = (u32::try_from(len), segments <= MAX_SEGMENTS, head >= 14)
        else {
            self.segments.truncate(first_segment);
            return Err(if segments <= MAX_SEGMENTS {
                Unfit::TooShort
            } else {
                Unfit::TooManySegments
            });
        };
        (frame.len, frame.network, frame.ingress) = (len, network, ingress);
        // At most as many bytes as a head has, and `MAX_SEGMENTS` for each frame of a batch.
        (frame.head_len, frame.first_segment) = (head as u16, first_segment as u32);
        (frame.segments, frame.hops, frame.origin) = (segments as u16, HOPS, 0);
        frame.offload = offload;
        self.used += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_a_copy_and_the_rest_is_borrowed() {
        let bytes: &'static [u8] = (0..=255).cycle().take(1500).collect::<Vec<u8>>().leak();
        let mut batch = Batch::new(2);
        let pieces = [&bytes[..20], &bytes[20..700], &bytes[700..]].map(Segment::of);
        batch
            .push(PortId(3), 7, Offload::default(), pieces)
            .unwrap();
        let frame = &batch.frames()[0];
        assert_eq!(frame.head(), &bytes[..HEAD]);
        assert_eq!(frame.len, 1500);
        let mut rest = vec![0; 1500 - HEAD];
        let mut at = 0;
        for segment in batch.rest(frame) {
            at += segment.copy_to(&mut rest[at..]);
        }
        assert_eq!(rest, bytes[HEAD..]);
        assert_eq!(frame.source(), [6, 7, 8, 9, 10, 11]);
        assert_eq!(batch.room(), 1);
    }

    #[test]
    fn a_frame_without_addresses_is_refused_and_leaves_nothing() {
        let mut batch = Batch::new(1);
        let refused = batch.push(PortId(0), 0, Offload::default(), [Segment::of(&[0; 13])]);
        assert_eq!(refused, Err(Unfit::TooShort));
        assert_eq!(batch.room(), 1);
    }

    #[test]
    fn a_frame_in_too_many_pieces_is_refused_and_leaves_nothing() {
        let mut batch = Batch::new(1);
        let pieces = |rest| {
            let head = [Segment::of(&[0; HEAD])].into_iter();
            head.chain(std::iter::repeat_n(Segment::of(&[1]), rest))
        };
        let refused = batch.push(PortId(0), 0, Offload::default(), pieces(MAX_SEGMENTS + 1));
        assert_eq!(refused, Err(Unfit::TooManySegments));
        let taken = batch.push(PortId(0), 0, Offload::default(), pieces(MAX_SEGMENTS));
        assert_eq!(taken, Ok(()));
        assert_eq!(batch.rest(&batch.frames()[0]).len(), MAX_SEGMENTS);
        assert!(!batch.extend_last(Segment::of(&[1])));
    }
}
