//! The record of one trial.

use std::collections::BTreeMap;

use latlab_model::results::{Held, Hwlat, SilentStalls};
use latlab_samples::Passage;
use latlab_wire::trace::Event;

use super::gaps::Gap;

#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// Every packet's passage through the device, in any order.
    pub passages: Vec<Passage>,
    /// Kernel events around the slowest, in the order of time.
    pub events: Vec<Event>,
    /// Recorded CPUs, each with the time from which on its events are complete.
    pub watched: Vec<(u16, u64)>,
    /// Gaps of the record after that time.
    pub gaps: Vec<Gap>,
    /// Nodes that stood still for an action, in the order of time.
    pub held: Vec<Held>,
    pub steal_known: bool,
    /// Periodic interruptions without events.
    pub hwlat: Vec<Hwlat>,
    /// Other interruptions without events, of each CPU that was watched for them.
    pub stalls: Vec<SilentStalls>,
    /// Names of system calls, by number.
    pub calls: BTreeMap<u16, String>,
    /// Limits of the record, to be printed with every answer.
    pub unknown: Vec<String>,
}
