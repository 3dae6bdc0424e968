//! Buffers of a receiver, lent to a batch.

use crate::frames::Segment;

/// A segment of a buffer that its receiver neither moves, changes nor frees until the batch that
/// borrows it is complete.
pub fn borrow(bytes: &[u8]) -> Segment {
    // SAFETY: the receivers of this port keep their buffers until `complete`, which ends the batch.
    unsafe { Segment::new(bytes.as_ptr(), bytes.len()) }
}
