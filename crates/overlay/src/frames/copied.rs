//! Copies of frames, for those that outlive their batch: borrowed memory goes back to its owner with the batch.

use super::batch::{Batch, Frame};
use super::offload::Offload;
use super::sys::Segment;
use crate::endpoints::port_id::PortId;

/// The memory of an allocation beside its bytes, and of its entry in a queue that has just grown.
const OVERHEAD: u64 = 16 + 2 * size_of::<FrameCopy>() as u64;

/// A frame in memory of its own.
#[derive(Debug)]
pub struct FrameCopy {
    ingress: PortId,
    network: u32,
    hops: u8,
    origin: u64,
    offload: Offload,
    bytes: Box<[u8]>,
}

impl FrameCopy {
    /// Copies a frame of a batch, which entered the network of this VNI.
    #[must_use]
    pub fn of(batch: &Batch, frame: &Frame, network: u32) -> FrameCopy {
        let mut bytes = Vec::with_capacity(frame.len as usize);
        bytes.extend_from_slice(frame.head());
        for segment in batch.rest(frame) {
            segment.append_to(&mut bytes);
        }
        FrameCopy {
            ingress: frame.ingress,
            network,
            hops: frame.hops,
            origin: frame.origin,
            offload: frame.offload,
            bytes: bytes.into(),
        }
    }

    #[must_use]
    pub const fn ingress(&self) -> PortId {
        self.ingress
    }

    /// The VNI of its network.
    #[must_use]
    pub const fn network(&self) -> u32 {
        self.network
    }

    /// The memory of a frame's copy.
    #[must_use]
    pub const fn memory_of(frame: &Frame) -> u64 {
        frame.len as u64 + OVERHEAD
    }

    #[must_use]
    pub const fn memory(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD
    }
}

/// A batch of copies, which it owns.
#[derive(Debug)]
pub struct CopyBatch {
    batch: Batch,
    copies: Vec<FrameCopy>,
}

impl CopyBatch {
    #[must_use]
    pub fn new(room: usize) -> CopyBatch {
        CopyBatch {
            batch: Batch::new(room),
            copies: Vec::with_capacity(room),
        }
    }

    #[must_use]
    pub const fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Adds copies, at most as many as there is room for.
    pub fn fill(&mut self, copies: impl Iterator<Item = FrameCopy>) {
        for copy in copies.take(self.batch.room()) {
            // SAFETY: the boxed bytes stay where they are until `take_from`, which clears the batch first.
            let bytes = unsafe { Segment::new(copy.bytes.as_ptr(), copy.bytes.len()) };
            let (ingress, network) = (copy.ingress, copy.network);
            // The copy was a frame of a batch, so it is one again.
            let pushed = self.batch.push(ingress, network, copy.offload, [bytes]);
            if let (Ok(()), Some(frame)) = (pushed, self.batch.last_mut()) {
                (frame.hops, frame.origin) = (copy.hops, copy.origin);
                self.copies.push(copy);
            }
        }
    }

    /// Empties the batch; returns the copies from an index on.
    pub fn take_from(&mut self, index: usize) -> Vec<FrameCopy> {
        self.batch.clear();
        let rest = self.copies.split_off(index.min(self.copies.len()));
        self.copies.clear();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_outlives_its_batch_and_is_the_same_frame() {
        let bytes: &'static [u8] = (0..=255).cycle().take(3000).collect::<Vec<u8>>().leak();
        let mut batch = Batch::new(1);
        let offload = Offload {
            verified: true,
            ..Offload::default()
        };
        let pieces = [&bytes[..900], &bytes[900..]].map(Segment::of);
        batch.push(PortId(3), 7, offload, pieces).unwrap();
        let frame = batch.last_mut().unwrap();
        (frame.hops, frame.origin) = (5, 99);
        let copy = FrameCopy::of(&batch, &batch.frames()[0], 8);
        assert_eq!(copy.memory(), FrameCopy::memory_of(&batch.frames()[0]));
        batch.clear();
        let mut copies = CopyBatch::new(2);
        copies.fill([copy].into_iter());
        let frame = &copies.batch().frames()[0];
        assert_eq!((frame.ingress, frame.network), (PortId(3), 8));
        assert_eq!((frame.hops, frame.origin), (5, 99));
        assert_eq!((frame.offload, frame.len), (offload, 3000));
        let mut whole = frame.head().to_vec();
        for segment in copies.batch().rest(frame) {
            segment.append_to(&mut whole);
        }
        assert_eq!(whole, bytes);
        assert_eq!(copies.take_from(1).len(), 0);
        assert!(copies.batch().frames().is_empty());
    }
}
