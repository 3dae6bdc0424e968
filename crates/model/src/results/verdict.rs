//! Whether a ratio tells of a difference.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the baseline, beyond chance.
    Better,
    /// Worse than the baseline, beyond chance.
    Worse,
    /// Different beyond chance alone, but not after correction for the number of comparisons, or not by ranks.
    NotProven,
    /// Any difference is smaller than the margin of equivalence.
    NoDifference,
    /// Equality and a difference beyond that margin both agree with the replicates.
    Inconclusive,
    TooFewReplicates,
}
