//! Changes of level in a series, one value a run.
//!
//! At each split the values just before are compared with those just behind by the Mann–Whitney test, which no outlier
//! can dominate. The best split of a segment is a change if its p-value, times the number of tests (Bonferroni), is
//! small; both sides are then searched in turn (binary segmentation, Scott and Knott 1974). The two sides are windows of
//! several lengths, so that a level of few runs is found, also one that ended soon.

use std::ops::Range;

use super::distribution::median;
use super::rank::mann_whitney;

/// Values before and behind a split that are compared; up to 20 the test is exact.
const WINDOWS: [(usize, usize); 3] = [(20, 20), (20, 8), (8, 20)];
/// Splits around the one with the largest statistic that may be the change.
const NEAR: usize = 8;
/// Values that a level needs, so that one odd run is none.
const MIN_LEVEL: usize = 3;
/// Chance of finding a change in a segment that has none, at most.
const SIGNIFICANCE: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first value of the new level.
    pub index: usize,
    /// Medians of the two levels.
    pub before: f64,
    pub after: f64,
    /// Corrected for the number of tests.
    pub p_value: f64,
}

/// Changes in order. Values are in order of time.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut splits = Vec::new();
    search(values, 0, values.len(), &mut splits);
    splits.sort_unstable();
    confirm(values, splits)
}

fn search(values: &[f64], from: usize, to: usize, splits: &mut Vec<usize>) {
    let Some(at) = most_separated(values, from, to) else {
        return;
    };
    if p_value(values, from, at, to) < SIGNIFICANCE {
        search(values, from, at, splits);
        splits.push(at);
        search(values, at, to, splits);
    }
}

/// The split with the largest statistic; then, near it, the one from whose two medians the values deviate least.
fn most_separated(values: &[f64], from: usize, to: usize) -> Option<usize> {
    let (first, last) = (from + MIN_LEVEL, to.saturating_sub(MIN_LEVEL));
    let all = (first..=last).flat_map(|at| sides(from, at, to).map(move |sides| (at, sides)));
    let measured = all.map(|(at, sides)| (at, sides.clone(), separation(values, &sides)));
    let (around, (before, behind), _) = measured.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let deviation = |at: usize| {
        let sides = [before.start..at, at..behind.end];
        let deviations = sides.map(|side| absolute_deviation(&values[side]));
        deviations.iter().sum::<f64>()
    };
    let begin = around.saturating_sub(NEAR).max(before.start + MIN_LEVEL);
    let end = (around + NEAR).min(behind.end - MIN_LEVEL);
    (begin..=end).min_by(|a, b| deviation(*a).total_cmp(&deviation(*b)))
}

/// Sum of the distances from the median. A value that is no number is not counted.
fn absolute_deviation(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances = values.iter().map(|value| (value - middle).abs());
    distances.filter(|distance| distance.is_finite()).sum()
}

/// A split that was found beside a larger one must also stand between its final neighbours.
fn confirm(values: &[f64], mut splits: Vec<usize>) -> Vec<Change> {
    loop {
        let bounds = |i: usize| {
            let from = i.checked_sub(1).map_or(0, |before| splits[before]);
            (from, splits.get(i + 1).copied().unwrap_or(values.len()))
        };
        let found: Vec<Change> = (0..splits.len())
            .map(|i| {
                let (from, to) = bounds(i);
                Change {
                    index: splits[i],
                    before: median(&values[from..splits[i]]),
                    after: median(&values[splits[i]..to]),
                    p_value: p_value(values, from, splits[i], to),
                }
            })
            .collect();
        let weakest =
            (0..found.len()).max_by(|&a, &b| found[a].p_value.total_cmp(&found[b].p_value));
        match weakest {
            Some(weakest) if found[weakest].p_value >= SIGNIFICANCE => {
                splits.remove(weakest);
            }
            _ => return found,
        }
    }
}

/// The values before and behind a split, window by window.
fn sides(from: usize, at: usize, to: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    WINDOWS.into_iter().map(move |(before, behind)| {
        let (start, end) = (from.max(at.saturating_sub(before)), to.min(at + behind));
        (start..at, at..end)
    })
}

/// The Mann–Whitney statistic in standard deviations, ties set aside; it only orders the splits.
fn separation(values: &[f64], (before, behind): &(Range<usize>, Range<usize>)) -> f64 {
    let (left, right) = (&values[before.clone()], &values[behind.clone()]);
    let order = |a: &f64, b: &f64| f64::from(i8::from(a < b) - i8::from(a > b));
    let excess = left
        .iter()
        .map(|a| right.iter().map(|b| order(a, b)).sum::<f64>());
    let (n, m) = (left.len() as f64, right.len() as f64);
    excess.sum::<f64>().abs() / libm::sqrt(n * m * (n + m + 1.0) / 3.0)
}

/// The smallest p-value of a split, times the number of tests in the segment.
fn p_value(values: &[f64], from: usize, at: usize, to: usize) -> f64 {
    let tests = WINDOWS.len() * ((to - from).saturating_sub(2 * MIN_LEVEL) + 1);
    let each = sides(from, at, to)
        .filter_map(|(before, behind)| mann_whitney(&values[before], &values[behind]));
    (each.fold(1.0, f64::min) * tests as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let level = |&(n, level): &(usize, f64)| std::iter::repeat_n(level, n);
        let levels: Vec<f64> = levels.iter().flat_map(level).collect();
        levels
            .iter()
            .map(|level| level * (1.0 + 0.02 * rng.normal()))
            .collect()
    }

    fn indices(values: &[f64]) -> Vec<usize> {
        changes(values).iter().map(|change| change.index).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let values = noisy(&[(40, 10.0), (30, 13.0), (50, 9.0)], 1);
        let found = changes(&values);
        assert_eq!(indices(&values), [40, 70]);
        assert!((found[0].after / found[0].before - 1.3).abs() < 0.03);
        assert!((found[1].after / found[1].before - 9.0 / 13.0).abs() < 0.03);
    }

    #[test]
    fn a_late_step_is_found_after_five_runs_and_an_odd_run_is_none() {
        assert_eq!(indices(&noisy(&[(46, 10.0), (5, 12.0)], 2)), [46]);
        assert_eq!(
            indices(&noisy(&[(46, 10.0), (1, 100.0), (20, 10.0)], 3)),
            [0; 0]
        );
        assert_eq!(indices(&noisy(&[(46, 10.0), (2, 100.0)], 3)), [0; 0]);
    }

    #[test]
    fn a_level_that_went_back_is_two_changes() {
        assert_eq!(
            indices(&noisy(&[(60, 10.0), (8, 12.0), (60, 10.0)], 4)),
            [60, 68]
        );
    }

    #[test]
    fn noise_alone_rarely_changes() {
        let series = (0..400).filter(|&seed| !changes(&noisy(&[(60, 10.0)], seed)).is_empty());
        let share = series.count() as f64 / 400.0;
        assert!(share < 0.02, "{share}");
    }

    #[test]
    fn short_and_equal_series_have_none() {
        for values in [vec![], vec![1.0], vec![1.0; 5], vec![1.0; 100]] {
            assert_eq!(changes(&values), []);
        }
    }

    #[test]
    fn values_that_are_no_numbers_end_no_search() {
        let mut values = noisy(&[(20, 10.0), (20, 12.0)], 5);
        values[7] = f64::NAN;
        values[30] = f64::INFINITY;
        assert_eq!(indices(&values), [20]);
    }
}
