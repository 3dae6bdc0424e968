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
    /// A card of hardware that the VM drives itself.
    Card(Card),
}

/// A device of the PCI bus that VFIO has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Such as `0000:03:10.0`.
    pub address: String,
    /// Its IOMMU group.
    pub group: u32,
    /// The Ethernet address that it has by itself, where nothing else gave it the lab's.
    pub own_mac: Option<[u8; 6]>,
}

impl NicBackend {
    /// The Ethernet address that a guest finds the card with, where that is not the lab's.
    pub(crate) fn own_mac(&self) -> Option<[u8; 6]> {
        match self {
            NicBackend::Card(card) => card.own_mac,
            NicBackend::Tap(_) | NicBackend::VhostUser(_) => None,
        }
    }
}
