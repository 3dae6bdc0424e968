//! Memory for the records of a trial, checked before anything is started.

use latlab_model::plan::RECORD_BYTES;

use crate::error::Error;

/// Refuses a trial whose packets do not fit into half of the free memory.
pub(crate) fn require(packets: u64, bytes_each: u64) -> Result<(), Error> {
    let needed = packets.saturating_mul(bytes_each);
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

/// The same for probes that keep records, which are there twice while they are handed over.
pub(crate) fn require_records(packets: u64, records_each: u64) -> Result<(), Error> {
    require(packets, 2 * records_each * RECORD_BYTES)
}

/// Free memory by the kernel's estimate; unlimited where the kernel gives none.
pub(crate) fn available_bytes() -> u64 {
    latlab_host::lab::available_bytes().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_beyond_half_of_the_free_memory_are_refused() {
        require_records(1_000, 2).unwrap();
        let packets = latlab_host::lab::available_bytes().unwrap() / RECORD_BYTES;
        let refused = require_records(packets, 1).unwrap_err().to_string();
        assert!(refused.contains("send fewer"), "{refused}");
        assert!(require(u64::MAX, u64::MAX).is_err());
    }
}
