//! Sums of packet counters.

use latlab_model::results::Counters;

/// Records come from outside: absurd counters must not overflow.
pub(crate) fn sum(counters: impl Iterator<Item = Counters>) -> Counters {
    counters.fold(Counters::default(), |a, b| Counters {
        sent: a.sent.saturating_add(b.sent),
        received: a.received.saturating_add(b.received),
        lost: a.lost.saturating_add(b.lost),
        duplicated: a.duplicated.saturating_add(b.duplicated),
        reordered: a.reordered.saturating_add(b.reordered),
        unmatched: a.unmatched.saturating_add(b.unmatched),
        corrupted: a.corrupted.saturating_add(b.corrupted),
    })
}
