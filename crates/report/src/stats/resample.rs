//! Resampling of replicates (the cluster bootstrap of Davison and Hinkley, *Bootstrap Methods and their Application*,
//! 1997, section 3.8): whole trials are drawn with replacement, and with each all its samples.
//!
//! Up to six replicates have at most 462 different resamples, so all are taken, each with its exact
//! probability: no random numbers and no noise from them. Beyond, a thousand are drawn from a seeded
//! generator, which gives a standard error to about 2 %.

use super::rng::Rng;

/// Replicates up to which every resample is enumerated.
const ENUMERATED_UP_TO: usize = 6;
/// Resamples drawn beyond that.
const DRAWS: usize = 1_000;

#[derive(Debug, Clone)]
pub struct Resamples {
    replicates: usize,
    times: Vec<(Vec<u32>, f64)>,
}

impl Resamples {
    /// All resamples, or a thousand drawn with `rng`.
    pub fn new(replicates: usize, rng: &mut Rng) -> Self {
        if replicates <= ENUMERATED_UP_TO {
            Self {
                replicates,
                times: enumerate(replicates),
            }
        } else {
            Self::drawn(replicates, DRAWS, rng)
        }
    }

    /// A given number of resamples, drawn with `rng`.
    pub(crate) fn drawn(replicates: usize, draws: usize, rng: &mut Rng) -> Self {
        let weight = 1.0 / draws as f64;
        Self {
            replicates,
            times: (0..draws)
                .map(|_| (draw(replicates, rng), weight))
                .collect(),
        }
    }

    /// Standard error of a statistic, by its standard deviation over the resamples, corrected by
    /// `n / (n - 1)` in variance because resampling sees the spread around the sample's own centre
    /// (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015, section 4.4).
    pub fn standard_error(&self, statistic: impl Fn(&[u32]) -> f64) -> f64 {
        let n = self.replicates as f64;
        let values: Vec<(f64, f64)> = self
            .times
            .iter()
            .map(|(times, weight)| (statistic(times), *weight))
            .collect();
        let mean: f64 = values.iter().map(|(value, weight)| value * weight).sum();
        let variance: f64 = values
            .iter()
            .map(|(value, weight)| (value - mean).powi(2) * weight)
            .sum();
        libm::sqrt(variance * n / (n - 1.0))
    }
}

fn draw(replicates: usize, rng: &mut Rng) -> Vec<u32> {
    let mut times = vec![0; replicates];
    for _ in 0..replicates {
        times[rng.below(replicates)] += 1;
    }
    times
}

/// Every way to write `n` as an ordered sum of `n` counts, with its multinomial probability.
fn enumerate(n: usize) -> Vec<(Vec<u32>, f64)> {
    fn fill(times: &mut Vec<u32>, left: u32, n: usize, all: &mut Vec<Vec<u32>>) {
        if times.len() + 1 == n {
            times.push(left);
            all.push(times.clone());
            times.pop();
            return;
        }
        for count in 0..=left {
            times.push(count);
            fill(times, left - count, n, all);
            times.pop();
        }
    }
    let mut all = Vec::new();
    if n > 0 {
        fill(&mut Vec::new(), n as u32, n, &mut all);
    }
    let factorial = |k: u32| (1..=k).map(f64::from).product::<f64>();
    let total = factorial(n as u32) / (n as f64).powi(n as i32);
    let probability = |times: &[u32]| total / times.iter().map(|&k| factorial(k)).product::<f64>();
    all.into_iter()
        .map(|times| {
            let weight = probability(&times);
            (times, weight)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumeration_is_complete_and_weighs_one() {
        for (n, count) in [(1, 1), (2, 3), (3, 10), (5, 126), (6, 462)] {
            let all = enumerate(n);
            assert_eq!(all.len(), count);
            let weight: f64 = all.iter().map(|(_, weight)| weight).sum();
            assert!((weight - 1.0).abs() < 1e-12);
            assert!(
                all.iter()
                    .all(|(times, _)| times.iter().sum::<u32>() == n as u32)
            );
        }
    }

    #[test]
    fn the_standard_error_of_a_mean_is_the_textbooks() {
        let values: [f64; 5] = [3.0, 5.0, 4.0, 9.0, 1.0];
        let mean = |times: &[u32]| {
            times
                .iter()
                .zip(values)
                .map(|(&t, v)| f64::from(t) * v)
                .sum::<f64>()
                / 5.0
        };
        let variance = values.iter().map(|v| (v - 4.4).powi(2)).sum::<f64>() / 4.0;
        let resamples = Resamples::new(5, &mut Rng::new(0));
        assert!((resamples.standard_error(mean) - (variance / 5.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn drawing_approximates_and_repeats() {
        let mean = |times: &[u32]| {
            times
                .iter()
                .enumerate()
                .map(|(i, &t)| f64::from(t) * i as f64)
                .sum::<f64>()
                / 12.0
        };
        let error = |seed| Resamples::new(12, &mut Rng::new(seed)).standard_error(mean);
        // Variance of 0..12 is 13.
        assert!((error(5) - (13.0_f64 / 12.0).sqrt()).abs() < 0.08);
        assert_eq!(error(5), error(5));
        assert_ne!(error(5), error(6));
    }
}
