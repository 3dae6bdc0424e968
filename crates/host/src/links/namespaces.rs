//! Names of a lab's namespaces and of its interfaces outside of them.

use std::collections::HashSet;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{LinkPlan, Medium, Plan};

/// Namespaces inside links have no use for IPv6 unless they route it. Without it a switch sends
/// nothing of its own into the segment, and interfaces are made faster.
const NO_IPV6: &[(&str, &str)] = &[("net/ipv6/conf/default/disable_ipv6", "1")];

/// A switch that stands for a wire between hosts does not show frames to a firewall, as a bridge does on machines with
/// Docker or Kubernetes (br_netfilter).
const WIRE: &[(&str, &str)] = &[
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    ("net/bridge/bridge-nf-call-iptables", "0"),
    ("net/bridge/bridge-nf-call-ip6tables", "0"),
    ("net/bridge/bridge-nf-call-arptables", "0"),
];

/// The kernel's label on the interfaces of the lab with this identifier.
pub fn alias(lab_id: &str) -> String {
    format!("latlab:{lab_id}")
}

/// The interfaces that a lab puts into the root namespace: the only ones that unpinning its
/// namespaces does not remove.
pub fn host_interfaces(plan: &Plan) -> Vec<String> {
    let hosts = plan.nodes.iter().filter(|node| node.kind().is_host());
    hosts
        .flat_map(|node| &node.interfaces)
        .map(|interface| interface.name.clone())
        .collect()
}

/// The names of all namespaces of a lab, with their settings.
pub(super) fn namespaces(plan: &Plan) -> Vec<(String, &'static [(&'static str, &'static str)])> {
    let mut all = Vec::new();
    for node in plan.nodes.iter().filter(|node| !node.kind().is_host()) {
        all.push((node.name.clone(), &[][..]));
    }
    let wires: HashSet<String> = plan
        .links
        .iter()
        .filter(|link| has_hosts(&link.medium))
        .map(inside_name)
        .collect();
    all.extend(link_namespaces(plan).into_iter().map(|(_, name)| {
        let settings = if wires.contains(&name) { WIRE } else { NO_IPV6 };
        (name, settings)
    }));
    all
}

/// Each link's namespaces: the link, name of the namespace.
pub(super) fn link_namespaces(plan: &Plan) -> Vec<(&LinkPlan, String)> {
    let mut all = Vec::new();
    for (index, link) in plan.links.iter().enumerate() {
        let mut add = |namespace| all.push((link, namespace));
        if has_inside(plan, index) {
            add(inside_name(link));
        }
        if has_hosts(&link.medium) {
            (0..link.endpoints.len()).for_each(|end| add(tunnel_name(link, end)));
        }
    }
    all
}

fn has_hosts(medium: &Medium) -> bool {
    match medium {
        Medium::Vxlan(_) => true,
        Medium::Overlay(overlay) => overlay.has_hosts(),
        _ => false,
    }
}

/// Whether a link has anything inside. Only a pair between two namespaces has not, be it of nodes or of their hosts: a
/// virtual machine that is impaired needs a shaper, two need a switch, and interfaces for the root namespace are
/// prepared inside.
fn has_inside(plan: &Plan, index: usize) -> bool {
    let link = &plan.links[index];
    if has_hosts(&link.medium) {
        return link.endpoints.len() != 2;
    }
    match &link.medium {
        Medium::Veth => {}
        medium if medium.is_driven_by_vms() => return false,
        Medium::Phys { .. } | Medium::Sriov { .. } => {
            let mut ends = link.endpoints.iter();
            return ends.any(|end| plan.nodes[end.node].kind().is_guest());
        }
        _ => return true,
    }
    let mut ends = link.endpoints.iter();
    let mut kinds = ends.clone().map(|end| plan.nodes[end.node].kind());
    kinds.clone().any(NodeKind::is_host)
        || kinds.all(NodeKind::is_guest)
        || ends.any(|end| plan.nodes[end.node].kind().is_guest() && !end.impairment.is_none())
}

pub(super) fn inside_name(link: &LinkPlan) -> String {
    format!("@{}", link.name)
}

pub(crate) fn tunnel_name(link: &LinkPlan, end: usize) -> String {
    format!("@{}.{end}", link.name)
}
