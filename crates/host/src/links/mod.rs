//! Links: what joins the nodes of a lab. `kinds` has one file a type, each holding that type's whole making.
//!
//! **Where things live.** Every node but a `host` has a network namespace, pinned under its name. What is inside a
//! link (switches, routers, tunnel ends) has namespaces of its own, pinned as `@LINK` and `@LINK.N`. So the host's own
//! namespace holds nothing of a lab except interfaces of `host` nodes, and a lab's links are removed, all of them, by
//! unpinning its namespaces. No kind has a way of its own to remove it; only a `phys` and a `passthrough` give their interfaces
//! back before, and a `sriov` unites its cards.
//!
//! **Virtual machines.** Their end of a link is a tap, whose descriptor QEMU inherits. Its network
//! side is where a container's interface would be plugged in: a port of the switch, or the other
//! node's interface itself. A guest configures its own addresses.
//!
//! **Labels.** Interfaces carry the alias `latlab:ID`. One that goes to the root namespace is made
//! and labelled in a namespace of the lab first and then moved, so that there never is one of ours
//! without its label in the root namespace.
//!
//! **Ready means ready.** [`Network::connect`] returns when every interface passes packets and
//! every address can be used.

mod attach;
mod builder;
mod configure;
mod connect;
mod control;
mod error;
mod follow;
mod impairment;
mod kinds;
mod macvtap;
mod namespaces;
mod netns_handle;
mod network;
mod replica;
mod underlay;
mod vm_end;
pub mod wire;

pub use error::Error;
pub(crate) use follow::Follower;
pub use impairment::longest_wait;
pub use kinds::passthrough::Port;
pub(crate) use kinds::passthrough::ports;
pub use kinds::phys::Lent;
pub(crate) use kinds::phys::lent;
pub use kinds::sriov::Divided;
pub(crate) use kinds::sriov::divided;
pub(crate) use kinds::{backends, port_devices, port_sockets};
pub(crate) use namespaces::tunnel_name;
pub use namespaces::{alias, host_interfaces};
pub use network::Network;
pub(crate) use replica::{Plugs, Replica};
pub use vm_end::{Card, NicBackend, VmEnd};
