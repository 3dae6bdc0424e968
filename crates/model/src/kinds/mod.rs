//! The vocabulary that documents of users and plans share: kinds of nodes, types of links, impairments, rights.
//! `spec` reads these words, plans hold them, and `host` needs only them.

mod container;
mod dpdk;
mod link;
mod node;
mod storage;
mod timestamps;
mod vm_hardware;
mod vm_net;

pub use container::{CAPABILITIES, CgroupNeed, Devices, Pids, Runtime, Seccomp, Security};
pub use dpdk::DpdkDriver;
pub(crate) use link::VXLAN_OVERHEAD;
pub use link::{
    Cable, Carrier, FunctionSettings, HostTunnel, Impairment, LinkKind, Mac, Streams, TunnelKeys,
    VmAttachment,
};
pub use node::{
    Acceleration, Bind, GuestRoot, GuestStart, Needs, NetworkStack, NodeKind, NodeProperties,
    VM_MEMORY,
};
pub use storage::{DiskAio, DiskCache, DiskDevice, DiskFormat, GuestDisk, StorageType};
pub use timestamps::Timestamps;
pub use vm_hardware::{LostTicks, ToldTopology, VmHardware};
pub use vm_net::{NetBackend, VmNet};
