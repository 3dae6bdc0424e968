//! The columns of the samples, and the percentiles that are computed from them.

/// Columns of `samples.parquet`, in order, all `INT64`; the last three are null for a lost sample.
///
/// `seq` counts from 0. `intended_ns` and `sent_ns` are nanoseconds since the start of the
/// measurement on the sender's clock; `received_ns` is on the same scale (mapped through
/// [`ClockMap`](super::ClockMap) when the receiver has another clock). `latency_ns` is `received - sent` for
/// request/response and `received - intended` for an open-loop packet, so that a generator that
/// fell behind is seen (coordinated omission). `arrival` is the order of arrival, from 0.
pub const SAMPLE_COLUMNS: [&str; 6] = [
    "seq",
    "intended_ns",
    "sent_ns",
    "received_ns",
    "latency_ns",
    "arrival",
];

/// A percentile is reported only when at least this many samples lie beyond it.
pub const MIN_SAMPLES_BEYOND: u64 = 10;

/// The percentiles of every table, as fractions.
pub const QUANTILES: [f64; 7] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];

/// Samples needed before the quantile `p` may be reported, [`MIN_SAMPLES_BEYOND`] of them beyond it.
pub fn samples_needed(p: f64) -> u64 {
    // Rounded before the ceiling: 1 - 0.999 is not exactly 0.001 in binary.
    (MIN_SAMPLES_BEYOND as f64 / (1.0 - p) * (1.0 - 1e-9)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        assert_eq!(samples_needed(0.5), 20);
        assert_eq!(samples_needed(0.99), 1_000);
        assert_eq!(samples_needed(0.999), 10_000);
        assert_eq!(samples_needed(0.9999), 100_000);
    }
}
