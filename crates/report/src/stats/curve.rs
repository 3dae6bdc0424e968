//! Curves of a million samples with few points, in the shape that matters. Points are chosen by rank, never
//! by averaging, so each is a measured sample, the order is kept, and the smallest and the largest sample are
//! always there.

use latlab_model::results::MIN_SAMPLES_BEYOND;

use super::distribution::Pooled;

pub const CURVE_POINTS: u32 = 200;

/// The percentile curve on the HDR axis: `(1 / (1 - p), value)`.
///
/// The sample with `k` others below it stands at `N / (N - k)`: the reciprocal of the fraction that
/// is at least as slow. The smallest is at 1, the largest at N ("one in N is this slow"). Ranks are
/// spread evenly on the logarithmic axis, and the percentiles of tables (p50, p90, p99, …) are among them.
pub fn percentile_curve(pooled: &Pooled<'_>) -> Vec<(f64, f64)> {
    let count = pooled.count();
    let n = count as f64;
    let rank_at = |x: f64| ((n - n / x).round() as u64).min(count - 1);
    let mut ranks: Vec<u64> = (0..CURVE_POINTS)
        .map(|i| rank_at(libm::pow(n, f64::from(i) / f64::from(CURVE_POINTS - 1))))
        .collect();
    let tenths = (1..=9).map(|nines| 10_f64.powi(nines));
    ranks.extend(tenths.chain([2.0]).filter(|x| *x < n).map(rank_at));
    ranks.push(count - 1);
    ranks.sort_unstable();
    ranks.dedup();
    let point = |rank: u64| (n / (count - rank) as f64, pooled.nth(rank) as f64);
    ranks.into_iter().map(point).collect()
}

/// End of the percentile curve by the number of samples beyond it, as `1 / (1 - p)`.
pub fn sound_to(count: u64) -> f64 {
    (count as f64 / MIN_SAMPLES_BEYOND as f64).max(1.0)
}

/// The cumulative distribution: `(value, fraction of samples not above it)`, rising in both.
///
/// Three quarters of the points lie evenly in fraction, the rest in the last hundredth, where an
/// even spacing would have two of them.
pub fn cdf(pooled: &Pooled<'_>) -> Vec<(f64, f64)> {
    let count = pooled.count();
    let n = count as f64;
    let even = CURVE_POINTS * 3 / 4;
    let tail = CURVE_POINTS - even;
    let body = (0..even).map(|i| f64::from(i) / f64::from(even));
    let beyond = (0..tail).map(|i| {
        1.0 - libm::pow(
            10.0,
            -2.0 - f64::from(i) / f64::from(tail) * (libm::log10(n) - 2.0).max(0.0),
        )
    });
    let mut values: Vec<i64> = body
        .chain(beyond)
        .map(|fraction| pooled.nth(((fraction * n) as u64).min(count - 1)))
        .chain([pooled.max()])
        .collect();
    values.sort_unstable();
    values.dedup();
    values
        .into_iter()
        .map(|x| (x as f64, pooled.count_up_to(x) as f64 / n))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    fn heavy_tailed(rng: &mut Rng, count: usize) -> Vec<i64> {
        let mut samples: Vec<i64> = (0..count)
            .map(|_| (5000.0 * libm::exp(rng.normal())) as i64)
            .collect();
        samples.sort_unstable();
        samples
    }

    fn rising(points: &[(f64, f64)]) -> bool {
        points
            .windows(2)
            .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1)
    }

    #[test]
    fn curves_rise_keep_the_extremes_and_stay_small() {
        let mut rng = Rng::new(3);
        for count in [1, 2, 3, 19, 200, 201, 5_000, 100_000] {
            let samples = heavy_tailed(&mut rng, count);
            let pooled = Pooled::new([samples.as_slice()]).unwrap();
            let (first, last) = (samples[0] as f64, samples[count - 1] as f64);

            let curve = percentile_curve(&pooled);
            assert!(
                rising(&curve) && curve.len() <= CURVE_POINTS as usize + 11,
                "{count}"
            );
            assert_eq!(curve[0], (1.0, first));
            assert_eq!(curve[curve.len() - 1], (count as f64, last));

            let cdf = cdf(&pooled);
            assert!(
                rising(&cdf) && cdf.len() <= CURVE_POINTS as usize + 1,
                "{count}"
            );
            assert_eq!(cdf[0].0, first);
            assert_eq!(cdf[cdf.len() - 1], (last, 1.0));
        }
    }

    #[test]
    fn a_point_of_the_curve_is_the_fraction_it_says() {
        let samples = heavy_tailed(&mut Rng::new(4), 10_000);
        let pooled = Pooled::new([samples.as_slice()]).unwrap();
        let curve = percentile_curve(&pooled);
        for percentile in [2.0, 10.0, 100.0, 1000.0] {
            assert!(curve.iter().any(|(x, _)| *x == percentile), "{percentile}");
        }
        for (x, value) in curve {
            let slower = samples.iter().filter(|&&s| s as f64 >= value).count();
            let expected = (10_000.0 / x).round() as usize;
            // Equal values make the count larger, never smaller.
            assert!(slower >= expected, "{x}: {slower} < {expected}");
        }
    }

    #[test]
    fn a_tail_is_sound_only_where_ten_samples_are_beyond() {
        assert_eq!(sound_to(100_000), 10_000.0);
        assert_eq!(sound_to(3), 1.0);
    }
}
