//! Rounding of results.

/// Rounds to nine significant digits, enough for an interval or a p-value and few enough for a readable
/// summary. An infinite value becomes the largest finite one: JSON has no infinity.
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
