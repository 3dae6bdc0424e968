//! Threads of an architecture whose registers are not known here: none can be led into a call.

use std::time::Duration;

use rustix::io::Errno;

pub const LATE: Duration = Duration::ZERO;

#[derive(Debug)]
pub struct Tracee;

impl Tracee {
    pub fn interrupt(_thread: u32) -> Result<Self, Errno> {
        Err(Errno::NOSYS)
    }

    pub fn await_stop(&mut self) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    pub fn release(self, _limit: Duration) -> Option<Self> {
        None
    }

    pub fn thread(&self) -> u32 {
        0
    }

    pub fn call<T>(
        &mut self,
        _number: i64,
        _arguments: [u64; 6],
        _during: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<(i64, T), Errno> {
        Err(Errno::NOSYS)
    }
}
