//! The receiving half of a port.

use std::os::fd::BorrowedFd;

use crate::frames::Batch;

/// All that a dispatcher needs of a port it receives from. Notifications may be moderated in both directions, as NICs
/// moderate interrupts; the defaults moderate nothing.
pub trait Receive: Send {
    /// Appends the frames that have arrived to the batch, in order and at most as many as fit; returns their number.
    /// Malformed frames are dropped and counted.
    fn receive(&mut self, batch: &mut Batch) -> usize;

    /// Every received frame has been sent or dropped: borrowed memory goes back to its owner.
    fn complete(&mut self);

    /// The descriptor that becomes readable when frames arrive while armed.
    fn wakeup(&self) -> BorrowedFd<'_>;

    /// Enables the wakeup for the next frame. Returns true if frames have arrived already: poll again before sleeping.
    fn arm(&mut self) -> bool;

    /// Disables wakeups while the dispatcher polls, until [`Receive::arm`] or drop. Also clears a pending wakeup.
    fn disarm(&mut self);

    /// Whether the device is gone for good: its descriptor stays readable and would wake the dispatcher for ever.
    fn is_gone(&self) -> bool {
        false
    }

    /// How long the completion interrupt may still be delayed, in ns. `None`: nothing is pending, or the next poll
    /// sends it.
    fn completion_due(&self) -> Option<u64> {
        None
    }

    /// Sends the pending completion interrupt, unless the peer suppresses it.
    fn notify(&mut self) {}

    /// How long frames may wait for more, in ns, if the peer supports notification suppression.
    fn coalesce_window(&self) -> Option<u64> {
        None
    }
}
