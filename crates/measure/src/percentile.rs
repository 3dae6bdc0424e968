//! Percentiles of the ruler and the floor, by nearest rank.

/// The value with `p` of the sorted values below it; 0 for none.
pub(crate) fn percentile(sorted: &[u64], p: f64) -> f64 {
    let rank = (sorted.len() as f64 * p) as usize;
    let rank = rank.min(sorted.len().saturating_sub(1));
    sorted.get(rank).map_or(0.0, |&value| value as f64)
}
