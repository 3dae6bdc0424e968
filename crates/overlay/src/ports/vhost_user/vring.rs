//! A ring's setup, from the VMM's messages so far.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Addresses of a ring, in the VMM's address space.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
    /// Guest-physical address of the used ring, if writes to it are logged.
    pub log: Option<u64>,
}

/// Setup of a ring. It runs once size, addresses and kick are set; a kick without a descriptor means polling.
#[derive(Debug, Default)]
pub struct Vring {
    pub size: Option<u16>,
    pub addresses: Option<Addresses>,
    /// Next available entry while stopped, from the VMM or from the last halt.
    pub base: u16,
    /// Whether a kick was set, which starts the ring.
    pub started: bool,
    pub kick: Option<Arc<OwnedFd>>,
    pub call: Option<Arc<OwnedFd>>,
    pub error: Option<Arc<OwnedFd>>,
    pub enabled: bool,
}
