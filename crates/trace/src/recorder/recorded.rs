//! The content of a recording, and its gaps.

use latlab_wire::trace::Event;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events of all CPUs, in the order of time.
    pub events: Vec<Event>,
    pub gaps: Gaps,
}

/// Gaps of a recording, which must not explain anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// For each watched CPU the time from which on its events are complete, and the number of older ones
    /// overwritten.
    pub cpus: Vec<Watched>,
    /// Tracepoints that this kernel lacks, by name, with the error.
    pub missing: Vec<(String, String)>,
    /// Events left out because the same program was running on that CPU.
    pub missed: u64,
    /// The hypervisor says how much time it takes away.
    pub steal_known: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    pub cpu: u16,
    /// Nothing is known of it before.
    pub complete_from_ns: u64,
    pub overwritten: u64,
    /// Times after `complete_from_ns` in which events were overwritten before they were read: the state is
    /// unknown until the next event.
    pub lost: Vec<(u64, u64)>,
    /// Parts of the windows whose events were not kept.
    pub not_kept: Vec<(u64, u64)>,
}
