//! Parameters of built-in programs: optional, with defaults and bounds.

use std::ops::RangeInclusive;

use super::reader::Object;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::units::Bytes;

/// A number within bounds.
pub(super) fn number(
    o: &mut Object<'_>,
    key: &'static str,
    default: u32,
    range: &RangeInclusive<u32>,
    errors: &mut Diagnostics,
) -> u32 {
    let given = o.get(key, errors);
    bounded(given, (key, &o.what), default, range, errors)
}

/// The number that was given as `key` of `what`.
pub(super) fn bounded(
    given: Option<Spanned<u32>>,
    (key, what): (&str, &str),
    default: u32,
    range: &RangeInclusive<u32>,
    errors: &mut Diagnostics,
) -> u32 {
    let Some(given) = given else {
        return default;
    };
    if !range.contains(&given.value) {
        let message = format!("`{key}` of {what} is {}", given.value);
        let hint = format!("from {} to {}", range.start(), range.end());
        errors.add(given.at, message, hint);
    }
    given.value
}

/// A number of bytes within bounds.
pub(super) fn size(
    o: &mut Object<'_>,
    key: &'static str,
    default: u64,
    range: &RangeInclusive<u64>,
    errors: &mut Diagnostics,
) -> Bytes {
    let Some(given) = o.get::<Bytes>(key, errors) else {
        return Bytes(default);
    };
    if !range.contains(&given.value.0) {
        let message = format!("`{key}` of {} is {}", o.what, given.value);
        let hint = format!("from {} to {}", Bytes(*range.start()), Bytes(*range.end()));
        errors.add(given.at, message, hint);
    }
    given.value
}
