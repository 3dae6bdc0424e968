//! The content of a recording, and its gaps.

use latlab_wire::trace::Event;

/// Everything that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events of all CPUs, in the order of time.
    pub events: Vec<Event>,
    /// Gaps in the events.
    pub gaps: Gaps,
}

/// Gaps of a recording, which must not explain anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// For each watched CPU: from when on its events are complete, and how many older ones were
    /// overwritten.
    pub processors: Vec<Watched>,
    /// Tracepoints that this kernel does not have, by name, and why each could not be used.
    pub missing: Vec<(String, String)>,
    /// Events that came while the same program was at work on that CPU and were left out.
    pub missed: u64,
    /// The hypervisor says how much time it takes away.
    pub steal_known: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    pub cpu: u16,
    /// Nothing is known of it before.
    pub complete_from_ns: u64,
    /// Events overwritten before they were read.
    pub overwritten: u64,
    /// Times after `complete_from_ns` in which events were overwritten before they were read: what was in
    /// force then is not known until the next event tells it.
    pub lost: Vec<(u64, u64)>,
    /// Parts of the windows that were asked for of which events were not kept.
    pub not_kept: Vec<(u64, u64)>,
}
