//! Verdicts about frames.

use super::hold::{HeldCounters, Hold};
use crate::endpoints::DropReason;
use crate::endpoints::port_id::PortId;

#[derive(Debug, Clone, Copy)]
pub enum Verdict<'a> {
    One(PortId),
    Many(&'a [PortId]),
    Drop(DropReason),
}

/// A frame that has to wait, unless its hold is over meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    pub hold: &'a Hold,
    /// A VNI.
    pub network: u32,
    pub counters: &'a HeldCounters,
}
