//! The types of links: the one place that lists them.
//!
//! | kind | what is made | seen by the nodes |
//! |---|---|---|
//! | `veth` | a pair of interfaces, nothing between | a point-to-point Ethernet |
//! | `bridge` | a learning switch | one Ethernet segment |
//! | `nat` | a switch, a router with masquerading, a point-to-point Ethernet | what Docker's users get |
//! | `macvlan` | slices of one parent interface | one Ethernet segment, no switch |
//! | `vxlan` | a switch and a tunnel end per endpoint, an underlay | an Ethernet over UDP |
//! | `overlay` | latlab's own switch, one or one per endpoint on an underlay | one Ethernet segment |
//! | `phys` | interfaces of the host come and go; a macvtap for a VM | what their cables join |
//! | `sriov` | virtual functions of cards of the host | what the card and its cable join |
//! | `passthrough` | ports of cards of the host, driven by VMs | what their cables join |

mod bridge;
mod function;
mod macvlan;
mod nat;
pub(super) mod overlay;
pub(super) mod passthrough;
pub(super) mod phys;
pub(super) mod sriov;
mod veth;
mod vxlan;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use latlab_model::plan::{InterfacePlan, Medium, NodePlan, Plan};

use super::builder::LinkBuilder;
use super::error::Error;
use super::vm_end::{Card, NicBackend, VmEnd};

/// Makes a link; the network side of every guest's interface is left to its QEMU.
pub(super) fn make(link: &LinkBuilder<'_>) -> Result<Vec<VmEnd>, Error> {
    match &link.plan().medium {
        Medium::Veth => veth::make(link),
        Medium::Bridge => bridge::make(link),
        Medium::Nat(nat) => nat::make(link, nat),
        Medium::Macvlan { parent } => macvlan::make(link, parent.as_deref()),
        Medium::Vxlan(vxlan) => vxlan::make(link, vxlan),
        Medium::Overlay(overlay) => overlay::make(link, overlay),
        Medium::Phys {
            interfaces,
            timestamps,
        } => phys::make(link, interfaces, *timestamps),
        Medium::Sriov {
            interfaces,
            settings,
            ..
        } => sriov::make(link, interfaces, settings),
        Medium::Passthrough { interfaces } => passthrough::make(link, interfaces),
    }
}

/// Directories of the sockets that serve a node's ports past the kernel, by the name of the port; `lab` is the lab's
/// volatile directory.
pub(crate) fn port_sockets(plan: &Plan, node: usize, lab: &Path) -> BTreeMap<String, PathBuf> {
    let node = &plan.nodes[node];
    let mut all = BTreeMap::new();
    for interface in &node.interfaces {
        let link = &plan.links[interface.link];
        let socket = overlay::vm_socket(lab, link, interface.endpoint, interface.endpoint);
        let socket = socket.filter(|_| node.is_past_kernel(&interface.name));
        if let Some(directory) = socket.as_deref().and_then(Path::parent) {
            all.insert(interface.name.clone(), directory.to_owned());
        }
    }
    all
}

/// The cards of hardware that a node drives by DPDK, by the name of the port.
pub(crate) fn port_devices(plan: &Plan, node: usize) -> BTreeMap<String, Card> {
    let node = &plan.nodes[node];
    let past = node.interfaces.iter();
    // A guest drives its cards at addresses of its own.
    let past = past.filter(|i| !node.kind().is_guest() && node.is_past_kernel(&i.name));
    past.filter_map(|interface| {
        let card = sriov::card_of(plan, interface)?;
        Some((interface.name.clone(), card))
    })
    .collect()
}

/// The network sides of a VM that is up, in the order of its interfaces; `host` is the node on whose hosts it is. Its
/// taps are its QEMU's.
pub(crate) fn backends(plan: &Plan, node: &NodePlan, host: usize, lab: &Path) -> Vec<NicBackend> {
    let of_interface = |interface: &InterfacePlan| {
        let link = &plan.links[interface.link];
        let own = interface.endpoint;
        let end = link.endpoints.iter().position(|end| end.node == host);
        match overlay::vm_socket(lab, link, own, end.unwrap_or(own)) {
            Some(socket) => NicBackend::VhostUser(socket),
            None => NicBackend::Tap(Vec::new()),
        }
    };
    node.interfaces.iter().map(of_interface).collect()
}
