//! The buffer that frames are copied through when cut-through forwarding is off: a guest's packet into
//! the switch, and from there to its destination, as before the paper's 4.3. To be measured against.

use super::receiver::Body;
use super::sys;
use crate::frames::Segment;

/// Copies of a batch's frames, kept until it is complete.
#[derive(Debug, Default)]
pub struct Bounce {
    /// One buffer a frame: they must not move while the batch borrows them.
    buffers: Vec<Vec<u8>>,
    used: usize,
}

impl Bounce {
    /// Copies a frame of `bytes` bytes.
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

    /// The batch is complete.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}
