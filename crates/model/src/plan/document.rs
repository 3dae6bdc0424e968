//! The plan as a document, and what can be asked of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::blueprint::Blueprint;
use super::link::{EndpointPlan, LinkPlan, Medium};
use super::names::Names;
use super::node::{InterfacePlan, NodePlan};
use crate::profile::Profile;
use crate::results::{Topology, TopologyEndpoint, TopologyLink, TopologyNode};
use crate::spec::Waypoint;
use crate::units::CpuList;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`Plan::FORMAT`].
    pub format: String,
    pub lab: String,
    /// The profile that the machine is tuned with while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningPlan>,
    #[serde(default)]
    pub blueprint: Blueprint,
    pub nodes: Vec<NodePlan>,
    pub links: Vec<LinkPlan>,
    /// How its nodes know each other.
    #[serde(default)]
    pub names: Names,
}

/// The settings of the machine's knobs while a lab is up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningPlan {
    /// As the lab names it.
    pub name: String,
    /// The whole profile as a document, so that a deployed lab does not depend on a file.
    pub profile: String,
    /// Its CPUs are a partition of the scheduler's, where the nodes' cgroups go.
    pub partition: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    pub address: IpAddr,
    /// The network of the address; none where a NAT stands for the node.
    pub network: Option<IpNet>,
    /// Sender's own address on that link.
    pub source: IpAddr,
    pub link: usize,
}

impl Plan {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.plan/2";

    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// Whether the TCP connections of a node may be streams: its processes are the host's, and a link of it has them.
    pub fn has_streams(&self, node: &NodePlan) -> bool {
        let is_end = |link: &LinkPlan| {
            let mut ends = link.endpoints.iter();
            ends.any(|end| self.nodes[end.node].name == node.name)
        };
        let mut links = self.links.iter().filter(|link| !link.streams().is_off());
        !node.kind().is_guest() && !node.kind().is_host() && links.any(is_end)
    }

    /// The interfaces of the host that its nodes get, or functions of them.
    pub fn lent_interfaces(&self) -> impl Iterator<Item = &str> {
        let lent = self.links.iter().flat_map(|link| link.medium.interfaces());
        lent.map(String::as_str)
    }

    pub fn end(&self, link: usize, endpoint: usize) -> (&NodePlan, &InterfacePlan) {
        let end = &self.links[link].endpoints[endpoint];
        let node = &self.nodes[end.node];
        (node, &node.interfaces[end.interface])
    }

    /// The first link that joins two nodes, by these interfaces where they are given, with the names of both interfaces.
    pub fn between(&self, from: Waypoint<'_>, to: Waypoint<'_>) -> Option<(&LinkPlan, &str, &str)> {
        let at = |link: &LinkPlan, way: Waypoint<'_>| {
            let mut ends = link.endpoints.iter();
            ends.find_map(|end| self.interface_at(end, way))
        };
        self.links
            .iter()
            .find_map(|link| Some((link, at(link, from)?, at(link, to)?)))
    }

    /// The name of the interface of an end, if the end is of this node.
    fn interface_at(&self, end: &EndpointPlan, way: Waypoint<'_>) -> Option<&str> {
        let node = &self.nodes[end.node];
        let name = node.interfaces[end.interface].name.as_str();
        (node.name == way.node && way.has(name)).then_some(name)
    }

    /// The names of the interfaces of two nodes on the first link that joins them so.
    pub fn joined<'w>(
        &self,
        from: impl Into<Waypoint<'w>>,
        to: impl Into<Waypoint<'w>>,
    ) -> Option<(&str, &str)> {
        let (_, from, to) = self.between(from.into(), to.into())?;
        Some((from, to))
    }

    /// The address under which a node reaches another: over their interfaces where these are given, else over the
    /// first link that joins them. `None` when no such link joins them in that family.
    pub fn reach<'w>(
        &self,
        from: impl Into<Waypoint<'w>>,
        to: impl Into<Waypoint<'w>>,
        ipv6: bool,
    ) -> Option<Reach> {
        let (from, to) = (from.into(), to.into());
        let to_node = self.node(to.node)?;
        for target in to_node.interfaces.iter().filter(|i| to.has(&i.name)) {
            let link = &self.links[target.link];
            let source =
                link.endpoints.iter().enumerate().find(|(i, end)| {
                    *i != target.endpoint && self.interface_at(end, from).is_some()
                });
            let Some((source_index, source_end)) = source else {
                continue;
            };
            let pick = |all: &[IpNet]| all.iter().map(IpNet::addr).find(|a| a.is_ipv6() == ipv6);
            // From outside a NAT, an inner node is reached under its published address.
            let address = match &link.medium {
                Medium::Nat(nat) if source_index == 0 => pick(&nat.published[target.endpoint - 1]),
                _ => pick(&target.addresses),
            };
            let source = &self.nodes[source_end.node].interfaces[source_end.interface];
            if let (Some(address), Some(source_address)) = (address, pick(&source.addresses)) {
                return Some(Reach {
                    address,
                    network: target
                        .addresses
                        .iter()
                        .find(|own| own.addr() == address)
                        .map(IpNet::trunc),
                    source: source_address,
                    link: target.link,
                });
            }
        }
        None
    }

    /// Choices of the plan where the lab leaves them open, with their reasons, a sentence each.
    pub fn choices(&self) -> Vec<String> {
        self.links.iter().filter_map(LinkPlan::choice).collect()
    }

    pub fn topology(&self, levels: BTreeMap<String, String>) -> Topology {
        let nodes = self.nodes.iter().map(|n| TopologyNode {
            name: n.name.clone(),
            kind: n.kind().to_string(),
            facts: n.facts(),
        });
        let links = self.links.iter().enumerate().map(|(i, l)| TopologyLink {
            name: l.name.clone(),
            kind: l.medium.kind().to_string(),
            facts: l.facts(),
            endpoints: (0..l.endpoints.len())
                .map(|e| {
                    let (node, interface) = self.end(i, e);
                    TopologyEndpoint {
                        node: node.name.clone(),
                        interface: interface.name.clone(),
                        addresses: interface
                            .addresses
                            .iter()
                            .map(ToString::to_string)
                            .collect(),
                    }
                })
                .collect(),
        });
        Topology {
            lab: self.lab.clone(),
            levels,
            nodes: nodes.collect(),
            links: links.collect(),
        }
    }

    /// The profile whose knobs are turned inside a node: that of a guest which follows the lab's tuning, as it
    /// is for the guest's own CPUs. Nodes of other kinds share the host's knobs.
    pub fn inside(&self, node: &NodePlan) -> Option<Profile> {
        let tuning = self.tuning.as_ref()?;
        let is_followed = node.kind().is_guest() && node.tuning.as_ref() == Some(&tuning.name);
        let profile = Profile::parse(&tuning.profile, &|_| None).ok();
        let profile = profile.filter(|_| is_followed)?;
        let inside = profile.in_guest(node.vcpus());
        (!inside.knobs.is_empty()).then_some(inside)
    }

    /// The CPUs inside a node on which what is measured runs, where they are a part of it: a tuned
    /// guest's, beside those that do its housekeeping.
    pub fn quiet_inside(&self, node: &NodePlan) -> Option<CpuList> {
        let inside = self.inside(node)?;
        let partition = inside.knobs.contains_key("cpuset");
        partition.then(|| CpuList::new((1..node.vcpus()).collect()))
    }
}
