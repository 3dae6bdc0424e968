//! Effects of the factors of a study: how much a level changes a quantity, by itself and together with others.

use serde::{Deserialize, Serialize};

use super::verdict::Verdict;

/// A change of one factor (a main effect) or of several at once (an interaction), on one quantity of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub measurement: String,
    /// `median latency`, a metric's title, `p99.9`, `sd` of the latency, or `sd between trials` of the first.
    pub quantity: String,
    pub changes: Vec<Change>,
    /// One change: the quantity at its level over that at its reference, the geometric mean over the levels of all other
    /// factors. Two: the first change's ratio at the second's level over its ratio at the second's reference, and so on;
    /// 1 means that they do not depend on each other.
    pub ratio: f64,
    /// 95 % interval over replicates.
    pub ratio_ci95: (f64, f64),
    /// The p-value of the t test of a ratio of 1, adjusted after Holm for all effects on this quantity.
    pub p_value: f64,
    /// Combinations of the other factors' levels that entered.
    pub combinations: usize,
    pub verdict: Verdict,
}

/// From a factor's reference level to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub factor: String,
    pub from: String,
    pub to: String,
}
