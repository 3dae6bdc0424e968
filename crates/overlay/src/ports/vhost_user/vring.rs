//! One ring as the monitor has described it so far.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Addresses of a ring, in the monitor's own memory.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// The descriptor table.
    pub descriptors: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring.
    pub used: u64,
    /// The guest-physical address of the used ring, when writes to it are to be logged.
    pub log: Option<u64>,
}

/// What was said of a ring. It works when size, addresses and kick were; a kick without a descriptor
/// is one that we must look for ourselves.
#[derive(Debug, Default)]
pub struct Vring {
    /// Entries.
    pub size: Option<u16>,
    /// Where it is.
    pub addresses: Option<Addresses>,
    /// The next available entry while it is stopped, as the monitor told or as it stood at its halt.
    pub base: u16,
    /// Whether a kick was set, which starts it.
    pub started: bool,
    /// The guest's kicks.
    pub kick: Option<Arc<OwnedFd>>,
    /// Our interrupts.
    pub call: Option<Arc<OwnedFd>>,
    /// The monitor is told here when the ring is stopped.
    pub error: Option<Arc<OwnedFd>>,
    /// Whether the guest's driver is there.
    pub enabled: bool,
}
