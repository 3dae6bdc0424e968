//! The options and words that the tests of sysbench share.

use latlab_model::results::Figure;

use super::times::NS_PER_MS;
use super::work::figure;
use crate::workload::figure::of_regex;

/// The percentile that it is asked for.
pub(super) const PERCENTILE: u32 = 99;

/// Mean, percentile and maximum of the time of an event.
pub(super) fn latencies(event: &str) -> [Figure; 3] {
    let of = |name: &str, title: &str| figure(name, &format!("{event}, {title}"), "ns", false);
    let percentile = format!("p{PERCENTILE}");
    [
        of("latency-mean", "mean"),
        of(&format!("latency-{percentile}"), &percentile),
        of("latency-max", "longest"),
    ]
}

/// The percentile and the maximum, in ns.
pub(super) fn tail(text: &str) -> Result<[f64; 2], String> {
    let percentile = of_regex(&format!("{PERCENTILE}th percentile: +([0-9.]+)"), text)?;
    let longest = of_regex("max: +([0-9.]+)", text)?;
    Ok([percentile * NS_PER_MS, longest * NS_PER_MS])
}

/// Fails unless it ran with this number of threads.
pub(super) fn check_threads(text: &str, asked: u32) -> Result<(), String> {
    let found = of_regex("Number of threads: ([0-9]+)", text)?;
    match found == f64::from(asked) {
        true => Ok(()),
        false => Err(format!("ran with {found} threads instead of {asked}")),
    }
}

pub(super) fn version(prepared: &str) -> Option<String> {
    let line = prepared.lines().next()?;
    line.strip_prefix("sysbench ").map(|v| v.trim().to_string())
}
