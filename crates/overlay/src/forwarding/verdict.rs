//! Verdicts about frames.

use crate::endpoints::DropReason;
use crate::endpoints::port_id::PortId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    One(PortId),
    Many(&'a [PortId]),
    Drop(DropReason),
}
