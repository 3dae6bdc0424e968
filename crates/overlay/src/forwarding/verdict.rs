//! Verdicts about frames.

use super::hold::{HeldCounters, Hold};
use crate::endpoints::DropReason;
use crate::endpoints::port_id::PortId;

#[derive(Debug, Clone, Copy)]
pub enum Verdict<'a> {
    One(PortId),
    Many(&'a [PortId]),
    Drop(DropReason),
    /// The frame waits, unless the hold is over meanwhile: then [`super::Decider::decide_now`] decides.
    Hold(&'a Hold, &'a HeldCounters),
}
