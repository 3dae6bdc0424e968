//! The network side of a virtual machine's interface.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The network side of a virtual machine's interface, for QEMU.
#[derive(Debug)]
pub struct VmEnd {
    /// Index of the node in the plan.
    pub node: usize,
    /// Index of the interface in the node.
    pub interface: usize,
    pub backend: NicBackend,
}

/// The backend of a network card.
#[derive(Debug)]
pub enum NicBackend {
    /// An open tap with a virtio-net header: a descriptor for each queue.
    Tap(Vec<OwnedFd>),
    /// The socket of the process that serves the card's rings (vhost-user).
    VhostUser(PathBuf),
}
