//! Memory of a forward run, checked before anything is started.

use latlab_wire::trace::TAP_RECORD_BYTES;

use crate::context::Context;
use crate::error::Error;

/// Bytes of a packet in the sender's record of its schedule.
const SCHEDULE_BYTES: u64 = 32;

/// Refuses a run that does not fit into half of the free memory: each tap's records, which are allocated at
/// once, and the sender's schedule, twice while it is handed over.
pub(super) fn require(context: &Context<'_>, packets: u64) -> Result<(), Error> {
    let taps = context.path().len().max(3) as u64 - 1;
    let needed = packets * (taps * TAP_RECORD_BYTES as u64 + 2 * SCHEDULE_BYTES);
    let available = available_bytes();
    if needed <= available / 2 {
        return Ok(());
    }
    Err(Error::Memory {
        packets,
        needed,
        available,
    })
}

/// Free memory by the kernel's estimate; unlimited where the kernel gives none.
pub(super) fn available_bytes() -> u64 {
    latlab_host::lab::available_bytes().unwrap_or(u64::MAX)
}
