//! The sending half of a port.

use crate::frames::Batch;

pub trait Transmit: Send {
    /// Sends the frames of the batch that `which` lists, in order. Never blocks: frames without room are dropped and
    /// counted.
    fn transmit(&mut self, batch: &Batch, which: &[u16]);

    /// Ends a pass: sends the notification that was held back (Cui 2013, 4.2: the end-of-coalescing notification).
    fn flush(&mut self) {}

    /// Whether the receiver takes frames now. If so, it goes on doing so until the flush.
    fn runs(&mut self) -> bool {
        true
    }

    /// The number of buffers that wait for frames now, if the receiver offers buffers and runs.
    fn buffers_left(&mut self) -> Option<usize> {
        None
    }
}
