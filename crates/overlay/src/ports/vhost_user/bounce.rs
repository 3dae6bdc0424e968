//! Copies of frames while cut-through forwarding is off: from the guest into the switch, and from there to the destination
//! (Cui 2013, before 4.3). A baseline for measurements.

use super::body::Body;
use super::sys;
use crate::frames::Segment;

/// Copies of a batch's frames, kept until it is complete.
#[derive(Debug, Default)]
pub struct Bounce {
    /// One buffer per frame: they must not move while the batch borrows them.
    buffers: Vec<Vec<u8>>,
    used: usize,
}

impl Bounce {
    pub fn copy(&mut self, body: &mut Body<'_>, bytes: usize) -> Segment {
        if self.used == self.buffers.len() {
            self.buffers.push(Vec::new());
        }
        let buffer = &mut self.buffers[self.used];
        self.used += 1;
        buffer.resize(bytes, 0);
        let mut at = 0;
        for segment in body {
            at += segment.copy_to(&mut buffer[at..]);
        }
        sys::borrow(&buffer[..at])
    }

    pub fn clear(&mut self) {
        self.used = 0;
    }
}
