//! `timestamps: hardware` of a measurement: cards stamp frames of PTP, which are sent in one way only.

use std::ops::RangeInclusive;

use super::probe::Probe;
use super::reader::Object;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::kinds::Timestamps;

/// Keys that say how packets are sent, with what has them instead.
const OTHERS: [&str; 5] = ["via", "ip", "flows", "burst", "actions"];
/// Bytes of a frame: a message of PTP, the probes' header and the frame check sequence at least.
pub(super) const BYTES: RangeInclusive<u64> = 78..=9018;

/// Reads who takes a measurement's times. Errors: keys that have no meaning beside cards that do.
pub(super) fn read(
    o: &mut Object<'_>,
    probe: Option<Probe>,
    errors: &mut Diagnostics,
) -> Option<Spanned<Timestamps>> {
    let by = o.get::<Timestamps>("timestamps", errors)?;
    if by.value.is_hardware() && probe == Some(Probe::Packets) {
        for key in OTHERS {
            if let Some(at) = o.key_at(key) {
                let message = format!(
                    "`{key}` of {} has no meaning with hardware timestamps",
                    o.what
                );
                let hint = "remove it: cards stamp single frames of PTP";
                errors.add(at, message, hint);
            }
        }
    }
    Some(by)
}
