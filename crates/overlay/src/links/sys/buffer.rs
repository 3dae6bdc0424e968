//! Memory of a link that batches borrow from.

use std::ops::Range;

use crate::frames::Segment;

#[derive(Debug)]
pub struct Buffer(*mut [u8]);

// SAFETY: it owns what it points to.
unsafe impl Send for Buffer {}

impl Buffer {
    pub fn new(len: usize) -> Buffer {
        Buffer(Box::into_raw(vec![0; len].into_boxed_slice()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A part to be written. The caller never writes a part that a batch borrows.
    pub fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.len());
        // SAFETY: inside of the memory, which is ours alone but for what batches copy from.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>().add(part.start), part.len()) }
    }

    pub fn part(&self, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.len());
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>().add(part.start), part.len()) }
    }

    /// A part for a batch. The caller leaves it unchanged until the batch is complete.
    pub fn segment(&self, part: Range<usize>) -> Segment {
        let bytes = self.part(part);
        // SAFETY: kept by the receiving half that calls this.
        unsafe { Segment::new(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
