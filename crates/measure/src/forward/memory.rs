//! Memory of a forward run, checked before anything is started.

use latlab_wire::trace::TAP_RECORD_BYTES;

use crate::context::Context;
use crate::error::Error;
use crate::memory;

/// Bytes of a packet in the sender's record of its schedule.
const SCHEDULE_BYTES: u64 = 32;

/// Refuses a run that does not fit into half of the free memory: each tap's records, which are allocated at
/// once, and the sender's schedule, twice while it is handed over.
pub(super) fn require(context: &Context<'_>, packets: u64) -> Result<(), Error> {
    let taps = context.path().len().max(3) as u64 - 1;
    let bytes_each = taps * TAP_RECORD_BYTES as u64 + 2 * SCHEDULE_BYTES;
    memory::require(packets, bytes_each)
}
