//! DPDK in a node: the driver of its ports.

use serde::{Deserialize, Serialize};

use super::link::LinkKind;
use crate::words::vocabulary;

/// The poll mode driver of a node's ports (DPDK, Network Interface Controller Drivers).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DpdkDriver {
    /// Packet sockets on the node's interfaces, which stay the kernel's.
    #[default]
    AfPacket,
    /// Rings in huge pages that the overlay's daemon serves, as it serves a VM's card. The node has no interface.
    VirtioUser,
    /// Virtual functions behind the IOMMU, or a VM's own cards, which the program drives itself. The node has no interface.
    Vfio,
}

vocabulary!(DpdkDriver, { "af-packet" => AfPacket, "virtio-user" => VirtioUser, "vfio" => Vfio });

impl DpdkDriver {
    /// The name of its virtual devices, without their number; none where ports are devices of the PCI bus.
    pub fn device(self) -> Option<&'static str> {
        match self {
            DpdkDriver::AfPacket => Some("net_af_packet"),
            DpdkDriver::VirtioUser => Some("net_virtio_user"),
            DpdkDriver::Vfio => None,
        }
    }

    /// The type of links that its ports are on, where that matters and the node is no VM.
    pub(crate) fn link(self) -> Option<LinkKind> {
        match self {
            DpdkDriver::AfPacket => None,
            DpdkDriver::VirtioUser => Some(LinkKind::Overlay),
            DpdkDriver::Vfio => Some(LinkKind::Sriov),
        }
    }

    /// Frames pass an interface of the node's kernel, and its taps.
    pub fn has_interface(self) -> bool {
        self == DpdkDriver::AfPacket
    }
}
