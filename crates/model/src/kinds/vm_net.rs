//! Network cards of a virtual machine.

use serde::{Deserialize, Serialize};

use crate::words::vocabulary;

/// The network cards of a VM: the mover of their packets, and their shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VmNet {
    /// The mover of packets on links over a tap. Links of type `overlay` are served by the overlay's daemon.
    pub backend: NetBackend,
    /// Pairs of queues.
    pub queues: u16,
    /// Descriptors in a receive ring. A transmit ring has 256 where QEMU allows no more.
    pub ring: u16,
    /// The packed format of rings (virtio 1.1, section 2.8).
    pub packed: bool,
    /// Segments and checksums are left to the host, and to the guest for what it receives.
    pub offloads: bool,
}

impl Default for VmNet {
    fn default() -> Self {
        VmNet {
            backend: NetBackend::Auto,
            queues: 1,
            ring: 256,
            packed: false,
            offloads: true,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetBackend {
    /// `vhost` where it works, as libvirt chooses; resolved when planned.
    #[default]
    Auto,
    /// The host's kernel, by `/dev/vhost-net`.
    Vhost,
    /// QEMU's own threads.
    Qemu,
}

vocabulary!(NetBackend, {
    "auto" => Auto, "vhost" => Vhost, "qemu" => Qemu,
});

impl VmNet {
    /// Differences from the default and the backend, shown wherever the node is.
    pub fn facts(&self) -> Vec<String> {
        let mut facts = vec![format!("taps by {}", self.backend)];
        let plain = VmNet::default();
        if self.queues != plain.queues {
            facts.push(format!("{} queues", self.queues));
        }
        if self.ring != plain.ring {
            facts.push(format!("rings of {}", self.ring));
        }
        if self.packed {
            facts.push("packed rings".into());
        }
        if !self.offloads {
            facts.push("no offloads".into());
        }
        facts
    }
}
