//! Statistics, as few as an honest comparison needs.
//!
//! Three habits, from which the rest follows. *Distributions, not means*: everything shown is an
//! order statistic of the raw samples. *The replicate is the unit of evidence*: samples of one
//! trial share its boot, its memory layout and its minute of the machine, so a hundred thousand of
//! them are one observation of a median, not a hundred thousand; intervals and tests therefore rest
//! on the variation between replicates. *The same input gives the same bytes*: random choices come
//! from a recorded seed, and logarithms from a portable library instead of the platform's.

mod curve;
mod distribution;
mod estimate;
mod rank;
mod resample;
mod rng;
mod special;
mod verdict;

pub use curve::{CURVE_POINTS, cdf, percentile_curve, sound_to};
pub use distribution::{Pooled, median, quantile, spread};
pub use estimate::{Estimate, Ratio, ratio};
pub use rank::mann_whitney;
pub use resample::Resamples;
pub use rng::Rng;
pub use special::{student_quantile, student_two_sided};
pub use verdict::{Claim, SIGNIFICANCE, holm, judge};

/// Rounds to nine significant digits: the number of digits that an interval or a p-value can use,
/// and few enough that a summary stays readable. An infinite value becomes the largest there is:
/// JSON has no infinity.
pub(crate) fn tidy(value: f64) -> f64 {
    if value == 0.0 || value.is_nan() {
        return value;
    }
    let value = value.clamp(f64::MIN, f64::MAX);
    // Through decimal text, because scaling by powers of ten is not exact.
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn tidy_keeps_nine_digits_at_any_magnitude() {
        assert_eq!(tidy(0.1234567891234), 0.123456789);
        assert_eq!(tidy(-98765.43219876), -98765.4322);
        assert_eq!(tidy(1.0e300 / 3.0), 3.33333333e299);
        assert_eq!(tidy(0.0), 0.0);
        assert!(tidy(f64::NAN).is_nan());
        assert!(tidy(f64::INFINITY).is_finite() && tidy(f64::MIN).is_finite());
    }
}
