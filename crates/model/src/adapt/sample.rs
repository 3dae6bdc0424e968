//! Measurements of a second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Samples in a window: one is taken each second.
pub(super) const WINDOW: usize = 5;

/// Two hosts, by their numbers, the lower one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Pair(usize, usize);

impl Pair {
    #[must_use]
    pub fn new(a: usize, b: usize) -> Pair {
        Pair(a.min(b), a.max(b))
    }

    #[must_use]
    pub const fn ends(self) -> [usize; 2] {
        [self.0, self.1]
    }
}

/// The straight way between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Leg {
    /// A probe's, between the hosts and below the overlay; none where it was not answered.
    pub round_trip: Option<Duration>,
}

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traffic {
    /// Counted where they left their hosts.
    pub sent: f64,
    /// Counted where they came in.
    pub received: f64,
}

/// Measurements of about a second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Time since the first sample.
    pub at: Duration,
    /// Pairs of hosts with a link between them.
    pub legs: BTreeMap<Pair, Leg>,
    /// Traffic between the nodes of two hosts, in both directions, by whichever way.
    pub traffic: BTreeMap<Pair, Traffic>,
    /// Share of the time in which the busiest CPU was not idle.
    pub busiest_cpu: f64,
}
