//! `sampling:` of a measurement.

use std::ops::RangeInclusive;

use super::reader::Object;
use crate::diagnostic::Diagnostics;

/// Samples of stacks in a second: more would be most of what the device does.
const SAMPLE_RATES: RangeInclusive<u32> = 1..=10_000;

/// The rate at which stacks are sampled.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<u32> {
    let mut sampling = o.object("sampling", errors)?;
    let rate = sampling.need::<u32>("rate", errors);
    let what = sampling.what.clone();
    sampling.finish(errors);
    let rate = rate?;
    if !SAMPLE_RATES.contains(&rate.value) {
        let message = format!("`rate` of {what} is {}", rate.value);
        let (from, to) = (SAMPLE_RATES.start(), SAMPLE_RATES.end());
        errors.add(
            rate.at,
            message,
            format!("from {from} to {to} samples per second"),
        );
    }
    Some(rate.value)
}
