//! Kinds of nodes, and what holds for all nodes of a kind. One entry of [`NodeKind::properties`] is all that the
//! planner, the reader of facts, `doctor`, links and measurements know of a kind: none of them asks which it is.

use serde::{Deserialize, Serialize};

use super::container::Runtime;
use crate::facts::document::Facts;
use crate::units::Bytes;
use crate::words::vocabulary;

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Processes in a network namespace of their own, on the host's file system.
    Native,
    /// A container started by one of several runtimes.
    Container,
    /// A virtual machine started by QEMU.
    Vm,
    /// The host's own network namespace, to attach links to.
    Host,
}

vocabulary!(NodeKind, {
    "native" => Native, "container" => Container, "vm" => Vm, "host" => Host,
});

/// Memory of a VM that asks for none: enough for a distribution's kernel and the tools of a lab.
pub const VM_MEMORY: Bytes = Bytes(512 << 20);

/// How a VM begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestStart {
    /// Its kernel boots.
    #[default]
    Boot,
    /// Execution goes on where a guest of the same kind was saved, whose memory is shared until it is written.
    Clone,
    /// A copy of the VM that `latlab snapshot` saved in this directory, as written.
    #[serde(untagged)]
    Snapshot(String),
}

/// The way a VM reaches its root file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestRoot {
    /// The image's directory on the host, over 9p or virtiofs.
    #[default]
    Share,
    /// A file system image on a virtio disk. Nothing of the guest's state is on the host then.
    Disk,
}

vocabulary!(GuestRoot, { "share" => Share, "disk" => Disk });

/// The network stack that a node's interfaces belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkStack {
    /// A network namespace of the node's own, on the host.
    Namespace,
    /// The host's own network namespace.
    Host,
    /// A guest's kernel: the host sees the other side of its network cards.
    Guest,
}

/// Properties of all nodes of a kind.
#[derive(Debug, Clone, Copy)]
pub struct NodeProperties {
    pub stack: NetworkStack,
    /// Nodes have a root file system of their own, from `image:`.
    pub has_image: bool,
    /// Nodes have a process for as long as they are up.
    pub has_process: bool,
    /// Cgroups enforce `cpus` and `memory`.
    pub is_limited: bool,
    pub needs: Needs,
}

/// Requirements of a kind on the machine.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Names of capabilities, each with what to do where it is missing.
    pub capabilities: &'static [(&'static str, &'static str)],
    /// Capabilities without which it runs, but worse.
    pub wishes: &'static [&'static str],
    /// Programs of which one must be installed; none when empty.
    pub programs: &'static [&'static str],
}

const NAMESPACES: (&str, &str) = (
    Facts::NAMESPACES,
    "latlab needs a kernel with namespaces, and the right to make them",
);

impl NodeKind {
    pub const fn properties(self) -> NodeProperties {
        match self {
            NodeKind::Native => NodeProperties {
                stack: NetworkStack::Namespace,
                has_image: false,
                has_process: false,
                is_limited: true,
                needs: Needs {
                    capabilities: &[NAMESPACES],
                    wishes: &[],
                    programs: &[],
                },
            },
            NodeKind::Container => NodeProperties {
                stack: NetworkStack::Namespace,
                has_image: true,
                has_process: true,
                is_limited: true,
                needs: Needs {
                    capabilities: &[(Facts::OVERLAYFS, "use kind native"), NAMESPACES],
                    wishes: &[],
                    programs: Runtime::PROGRAMS,
                },
            },
            NodeKind::Vm => NodeProperties {
                stack: NetworkStack::Guest,
                has_image: true,
                has_process: true,
                is_limited: false,
                needs: Needs {
                    capabilities: &[(Facts::TAP, "use kind native or container"), NAMESPACES],
                    wishes: &[Facts::KVM, Facts::VHOST_NET],
                    programs: &["qemu-system-x86_64"],
                },
            },
            NodeKind::Host => NodeProperties {
                stack: NetworkStack::Host,
                has_image: false,
                has_process: false,
                is_limited: false,
                needs: Needs {
                    capabilities: &[],
                    wishes: &[],
                    programs: &[],
                },
            },
        }
    }

    /// True for a virtual machine of any kind.
    pub fn is_guest(self) -> bool {
        self.properties().stack == NetworkStack::Guest
    }

    /// True for the host itself.
    pub fn is_host(self) -> bool {
        self.properties().stack == NetworkStack::Host
    }
}

/// How a VM's CPU is provided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// KVM where a boot proves it, software emulation otherwise.
    #[default]
    Auto,
    /// KVM or refuse.
    Kvm,
    Tcg,
}

/// A host directory seen inside a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Path on the host, as written (relative paths are relative to the lab's file).
    pub source: String,
    /// Absolute path inside the node.
    pub target: String,
    /// Not writable from inside.
    pub read_only: bool,
}
