//! The network side of a virtual machine's interface.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

#[derive(Debug)]
pub struct VmEnd {
    pub node: usize,
    pub interface: usize,
    pub backend: NicBackend,
}

#[derive(Debug)]
pub enum NicBackend {
    /// An open tap with a virtio-net header: a descriptor for each queue.
    Tap(Vec<OwnedFd>),
    /// The socket of the process that serves the card's rings (vhost-user).
    VhostUser(PathBuf),
}
