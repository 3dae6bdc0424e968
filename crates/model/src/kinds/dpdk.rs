//! DPDK in a node: the driver of its ports.

use serde::{Deserialize, Serialize};

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
}

vocabulary!(DpdkDriver, { "af-packet" => AfPacket, "virtio-user" => VirtioUser });

impl DpdkDriver {
    /// The name of its devices, without their number.
    pub fn device(self) -> &'static str {
        match self {
            DpdkDriver::AfPacket => "net_af_packet",
            DpdkDriver::VirtioUser => "net_virtio_user",
        }
    }

    /// Frames pass an interface of the node's kernel, and its taps.
    pub fn has_interface(self) -> bool {
        self == DpdkDriver::AfPacket
    }
}
