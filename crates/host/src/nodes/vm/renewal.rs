//! News for a guest that goes on where it was saved: random numbers that no other guest has, and the time of day.

use std::time::SystemTime;

use latlab_wire::channel::Renewal;
use rustix::rand::{GetRandomFlags, getrandom};

use super::error::Error;
use crate::sys;

/// Twice what the kernel's generator holds.
const ENTROPY_BYTES: usize = 64;

pub(super) fn draw(guest: &str) -> Result<Renewal, Error> {
    let mut entropy = [0; ENTROPY_BYTES];
    getrandom(&mut entropy, GetRandomFlags::empty())
        .map_err(sys::Error::of("draw random bytes for", guest))?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Renewal {
        entropy: entropy.to_vec(),
        realtime_ns: since_1970.unwrap_or_default().as_nanos() as u64,
    })
}
