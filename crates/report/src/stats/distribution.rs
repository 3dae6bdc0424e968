//! Exact quantiles of raw samples.
//!
//! A quantile is Hyndman and Fan's type 7: position `h = (N - 1) p` in the sorted samples, linear between
//! neighbours. It is the default of NumPy, pandas, R and DuckDB's `quantile_cont`, so anyone can recompute a
//! number of the report from the Parquet files and find the same one.
//!
//! Samples of a cell are pooled without a copy: each trial's samples stay in a sorted slice, and the k-th
//! smallest of all is found by bisection over values, counting in each slice. That costs 8 bytes a sample for
//! one cell at a time. Resampling is free: a trial drawn twice is a slice counted twice.

use std::collections::BTreeMap;

use latlab_model::results::Spread;

/// Quantile of sorted values; NaN for none.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let h = last as f64 * p;
    let low = (h.floor() as usize).min(last);
    let (x, y) = (sorted[low], sorted[(low + 1).min(last)]);
    x + (h - low as f64) * (y - x)
}

/// Median of values in any order; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// Standard deviation of a sample (its squares divided by n - 1); 0 of fewer than two values.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    libm::sqrt(squares.sum::<f64>() / (n - 1.0))
}

/// The pooled standard deviation of the logarithms of positive values around the mean of their group; 0 where no group has
/// two.
pub fn log_spread<'g>(values: impl IntoIterator<Item = (&'g str, f64)>) -> f64 {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (group, value) in values {
        if value.is_finite() && value > 0.0 {
            groups.entry(group).or_default().push(libm::log(value));
        }
    }
    let (mut squares, mut degrees) = (0.0, 0);
    for logs in groups.values() {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        degrees += logs.len() - 1;
    }
    match degrees {
        0 => 0.0,
        _ => libm::sqrt(squares / degrees as f64),
    }
}

/// The numbers of a box plot, of values in any order; `None` for none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ends = (*sorted.first()?, *sorted.last()?);
    Some(spread_of(ends, |p| quantile(&sorted, p)))
}

fn spread_of((min, max): (f64, f64), q: impl Fn(f64) -> f64) -> Spread {
    Spread {
        min,
        p5: q(0.05),
        q1: q(0.25),
        median: q(0.5),
        q3: q(0.75),
        p95: q(0.95),
        max,
    }
}

/// Sorted samples of several trials, seen as one set.
#[derive(Debug, Clone)]
pub struct Pooled<'a> {
    /// One sorted slice a trial, none of them empty.
    parts: Vec<&'a [i64]>,
}

impl<'a> Pooled<'a> {
    /// Pools sorted slices, leaving out empty ones; `None` when nothing is left.
    pub fn new(parts: impl IntoIterator<Item = &'a [i64]>) -> Option<Self> {
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        debug_assert!(parts.iter().all(|part| part.is_sorted()));
        (!parts.is_empty()).then_some(Self { parts })
    }

    pub fn parts(&self) -> &[&'a [i64]] {
        &self.parts
    }

    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    pub fn min(&self) -> i64 {
        self.parts
            .iter()
            .map(|part| part[0])
            .min()
            .unwrap_or_default()
    }

    pub fn max(&self) -> i64 {
        self.parts
            .iter()
            .map(|part| part[part.len() - 1])
            .max()
            .unwrap_or_default()
    }

    pub fn count_up_to(&self, value: i64) -> u64 {
        self.parts
            .iter()
            .map(|part| part.partition_point(|&x| x <= value) as u64)
            .sum()
    }

    /// The sample with `rank` others before it in sorted order; the largest beyond the end.
    pub fn nth(&self, rank: u64) -> i64 {
        let (mut low, mut high) = (self.min(), self.max());
        while low < high {
            let middle = midpoint(low, high);
            if self.count_up_to(middle) > rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Type 7 quantile of all samples.
    pub fn quantile(&self, p: f64) -> f64 {
        let h = (self.count() - 1) as f64 * p;
        let low = h.floor();
        let x = self.nth(low as u64) as f64;
        if h == low {
            return x;
        }
        let y = self.nth(low as u64 + 1) as f64;
        x + (h - low) * (y - x)
    }

    /// Standard deviation (of a sample: divided by N - 1); 0 for a single one.
    pub fn standard_deviation(&self) -> f64 {
        let count = self.count();
        if count < 2 {
            return 0.0;
        }
        // The sum is exact, so the second pass starts from the best mean.
        let sum: i128 = self
            .parts
            .iter()
            .flat_map(|part| part.iter())
            .map(|&x| i128::from(x))
            .sum();
        let mean = sum as f64 / count as f64;
        let squares: f64 = self
            .parts
            .iter()
            .map(|part| part.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>())
            .sum();
        (squares / (count - 1) as f64).sqrt()
    }

    /// Standard deviations of sets in which each trial counts a whole number of times.
    pub(crate) fn resampled_deviation(&self) -> impl Fn(&[u32]) -> f64 + use<> {
        let of_part = |part: &&[i64]| {
            let count = part.len() as f64;
            let mean = part.iter().map(|&x| x as f64).sum::<f64>() / count;
            let squares = part.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>();
            (count, mean, squares)
        };
        let parts: Vec<(f64, f64, f64)> = self.parts.iter().map(of_part).collect();
        move |times| {
            let weighted = || times.iter().map(|&t| f64::from(t)).zip(&parts);
            let count: f64 = weighted().map(|(t, (n, ..))| t * n).sum();
            let mean = weighted()
                .map(|(t, (n, mean, _))| t * n * mean)
                .sum::<f64>()
                / count;
            // Steiner: the variance of each trial, and the distance of its mean.
            let squares: f64 = weighted()
                .map(|(t, (n, own, squares))| t * (squares + n * (own - mean).powi(2)))
                .sum();
            libm::sqrt(squares / (count - 1.0).max(1.0))
        }
    }

    pub fn spread(&self) -> Spread {
        let ends = (self.min() as f64, self.max() as f64);
        spread_of(ends, |p| self.quantile(p))
    }

    /// A searcher for one quantile of many resamples.
    pub(crate) fn resampled(&self, p: f64) -> ResampledQuantile<'a> {
        ResampledQuantile::new(&self.parts, p)
    }
}

/// One quantile of sets in which each trial counts a whole number of times.
///
/// The quantile of a mixture lies between the smallest and the largest of its parts' own quantiles (and with
/// type 7 between the order statistics around them). So the search is confined to that window of values,
/// found once, and a thousand resamples of a million samples cost milliseconds.
pub(crate) struct ResampledQuantile<'a> {
    p: f64,
    low: i64,
    high: i64,
    /// Length, number of samples below the window, samples inside the window; one a trial.
    parts: Vec<(u64, u64, &'a [i64])>,
}

impl<'a> ResampledQuantile<'a> {
    fn new(parts: &[&'a [i64]], p: f64) -> Self {
        let position = |part: &[i64]| (part.len() - 1) as f64 * p;
        let lower = |part: &&[i64]| part[position(part).floor() as usize];
        let upper = |part: &&[i64]| part[(position(part).ceil() as usize).min(part.len() - 1)];
        let low = parts.iter().map(lower).min().unwrap_or_default();
        let high = parts.iter().map(upper).max().unwrap_or_default();
        let window = |part: &&'a [i64]| {
            let below = part.partition_point(|&x| x < low);
            let upto = part.partition_point(|&x| x <= high);
            (part.len() as u64, below as u64, &part[below..upto])
        };
        Self {
            p,
            low,
            high,
            parts: parts.iter().map(window).collect(),
        }
    }

    /// The quantile when trial `i` counts `times[i]` times.
    pub(crate) fn value(&self, times: &[u32]) -> f64 {
        let count: u64 = self
            .weighted(times)
            .map(|(times, part)| times * part.0)
            .sum();
        let h = count.saturating_sub(1) as f64 * self.p;
        let low = h.floor();
        let x = self.nth(times, low as u64);
        if h == low {
            return x as f64;
        }
        let y = self.nth(times, low as u64 + 1);
        x as f64 + (h - low) * (y as f64 - x as f64)
    }

    fn weighted(&self, times: &[u32]) -> impl Iterator<Item = (u64, &(u64, u64, &'a [i64]))> {
        times
            .iter()
            .map(|&times| u64::from(times))
            .zip(&self.parts)
            .filter(|(times, _)| *times > 0)
    }

    fn nth(&self, times: &[u32], rank: u64) -> i64 {
        let (mut low, mut high) = (self.low, self.high);
        while low < high {
            let middle = midpoint(low, high);
            let upto: u64 = self
                .weighted(times)
                .map(|(times, (_, below, window))| {
                    times * (below + window.partition_point(|&x| x <= middle) as u64)
                })
                .sum();
            if upto > rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The middle of `low..=high`, rounded down, without overflow at the ends of the range.
fn midpoint(low: i64, high: i64) -> i64 {
    low.wrapping_add((high.wrapping_sub(low) as u64 / 2) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// Sorted trials with ties, gaps, negative values and very different lengths.
    fn trials(rng: &mut Rng) -> Vec<Vec<i64>> {
        let trial = |rng: &mut Rng| {
            let length = 1 + rng.below(60);
            let width = 1 + rng.below(500);
            let mut part: Vec<i64> = (0..length)
                .map(|_| rng.below(width) as i64 * 3 - 200)
                .collect();
            part.sort_unstable();
            part
        };
        (0..1 + rng.below(6)).map(|_| trial(rng)).collect()
    }

    fn sorted_f64(values: impl Iterator<Item = i64>) -> Vec<f64> {
        let mut all: Vec<f64> = values.map(|x| x as f64).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn type_7_as_in_numpy() {
        // numpy.quantile([10, 20, 40, 80], q)
        let sorted = [10.0, 20.0, 40.0, 80.0];
        for (p, expected) in [
            (0.0, 10.0),
            (0.25, 17.5),
            (0.5, 30.0),
            (0.9, 68.0),
            (1.0, 80.0),
        ] {
            assert!((quantile(&sorted, p) - expected).abs() < 1e-12, "{p}");
        }
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn pooling_equals_concatenating_and_sorting() {
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let trials = trials(&mut rng);
            let pooled = Pooled::new(trials.iter().map(Vec::as_slice)).unwrap();
            let all = sorted_f64(trials.iter().flatten().copied());
            assert_eq!(pooled.count(), all.len() as u64);
            for (rank, &x) in all.iter().enumerate() {
                assert_eq!(pooled.nth(rank as u64) as f64, x);
            }
            for p in [0.0, 0.01, 0.5, 0.731, 0.99, 1.0] {
                assert_eq!(pooled.quantile(p), quantile(&all, p));
            }
        }
    }

    #[test]
    fn a_resample_equals_repeating_its_trials() {
        let mut rng = Rng::new(2);
        for _ in 0..300 {
            let trials = trials(&mut rng);
            let pooled = Pooled::new(trials.iter().map(Vec::as_slice)).unwrap();
            let mut times: Vec<u32> = trials.iter().map(|_| rng.below(4) as u32).collect();
            times[0] += 1;
            let repeated = trials
                .iter()
                .zip(&times)
                .flat_map(|(trial, &times)| (0..times).flat_map(move |_| trial.iter().copied()));
            let all = sorted_f64(repeated);
            for p in [0.0, 0.1, 0.5, 0.9, 0.999, 1.0] {
                let found = pooled.resampled(p).value(&times);
                assert_eq!(found, quantile(&all, p), "p {p} times {times:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let ends = [i64::MIN, i64::MAX];
        let pooled = Pooled::new([ends.as_slice()]).unwrap();
        assert_eq!((pooled.nth(0), pooled.nth(1)), (i64::MIN, i64::MAX));
        assert!(pooled.standard_deviation().is_finite());
    }

    #[test]
    fn deviation_of_known_numbers() {
        let pooled = Pooled::new([[2, 4, 4].as_slice(), &[4, 5, 5, 7, 9]]).unwrap();
        assert!((pooled.standard_deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn deviation_of_resamples_is_that_of_the_samples() {
        let (a, b) = ([2, 4, 4, 9], [5, 5, 70]);
        let pooled = Pooled::new([a.as_slice(), &b]).unwrap();
        let resampled = pooled.resampled_deviation();
        for times in [[1, 1], [2, 0], [1, 3]] {
            let all: Vec<i64> =
                [a.as_slice().repeat(times[0]), b.as_slice().repeat(times[1])].concat();
            let mut all = all;
            all.sort_unstable();
            let direct = Pooled::new([all.as_slice()]).unwrap().standard_deviation();
            let found = resampled(&times.map(|t| t as u32));
            assert!((found - direct).abs() < 1e-9, "{times:?}: {found} {direct}");
        }
    }

    #[test]
    fn nothing_has_no_distribution() {
        assert!(Pooled::new([[].as_slice(), &[]]).is_none());
        assert_eq!(spread(&[]), None);
    }
}
