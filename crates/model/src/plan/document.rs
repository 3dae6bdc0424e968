//! The plan as a document, and what can be asked of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::blueprint::Blueprint;
use super::names::Names;
use crate::profile::{Isolation, Profile, Wanted};
use crate::results::{Topology, TopologyEndpoint, TopologyLink, TopologyNode};
use crate::spec::{
    Acceleration, Bind, Cable, Carrier, Impairment, LinkKind, Mac, NodeKind, Runtime, Security,
};
use crate::units::{Bytes, CpuList};

/// Everything that will be made for a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`Plan::FORMAT`].
    pub format: String,
    pub lab: String,
    /// The profile that the machine is tuned with while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningPlan>,
    /// Where everything runs, and why there.
    #[serde(default)]
    pub blueprint: Blueprint,
    /// Its nodes, in the order of the lab.
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

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    pub name: String,
    pub kind: NodeKind,
    /// `host`, a directory, or an archive; as written.
    pub image: String,
    /// CPUs' worth of time (a VM: virtual CPUs), when limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// CPUs that it may run on, when confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<CpuList>,
    /// The node asked for CPUs of its own; which of those in `cpuset` they are is in the blueprint,
    /// because a VM's emulator may run among the host's own threads.
    #[serde(default)]
    pub isolate: bool,
    /// Memory nodes that it may use, when confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_nodes: Option<CpuList>,
    /// The profile that it follows: its own, else the lab's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<String>,
    /// Memory, when limited; always there for a VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Paths of the image that are covered (containers and VMs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// Commands run once it is ready.
    #[serde(default)]
    pub exec: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Script before it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
    #[serde(default)]
    pub runtime: Runtime,
    /// Rights beyond the default (containers).
    #[serde(default, skip_serializing_if = "Security::is_default")]
    pub security: Security,
    pub kernel: String,
    /// Kernel parameters (VMs): its profile's, then its own.
    #[serde(default)]
    pub boot: Vec<String>,
    /// How its virtual CPUs lie to each other (VMs), where each has a CPU of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<GuestTopology>,
    /// How its memory is provided (VMs).
    #[serde(default, skip_serializing_if = "GuestMemory::is_plain")]
    pub guest_memory: GuestMemory,
    /// How its CPU is provided (VMs). `auto` is resolved when it is planned.
    #[serde(default)]
    pub acceleration: Acceleration,
    /// Its interfaces, in the order of the links.
    pub interfaces: Vec<InterfacePlan>,
}

/// The CPU topology that a guest is told, so that its scheduler knows who shares a core and who a cache:
/// numbers of each in the next larger, as in QEMU's `-smp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTopology {
    /// Parts with a memory node of their own on the host.
    pub sockets: u32,
    /// Parts of these with a last cache of their own.
    pub dies: u32,
    pub cores: u32,
    pub threads: u32,
}

/// How a VM's memory is provided (Welch 2015, table 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMemory {
    /// All of it is there from the start: the guest waits for no page later.
    pub preallocated: bool,
    /// The memory is never swapped out.
    pub locked: bool,
    /// The memory is made of huge pages.
    pub huge: bool,
}

impl GuestMemory {
    /// The memory that a profile wants.
    pub fn of(profile: &Profile) -> GuestMemory {
        let wants = |knob: &str| profile.knobs.contains_key(knob);
        GuestMemory {
            preallocated: profile.cores != Isolation::Shared,
            locked: wants("memory-lock"),
            huge: matches!(profile.knobs.get("huge-pages"), Some(Wanted::Size(size)) if size.0 > 0),
        }
    }

    fn is_plain(&self) -> bool {
        *self == GuestMemory::default()
    }
}

/// An interface inside a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterfacePlan {
    /// Its name inside the node.
    pub name: String,
    pub mac: Mac,
    pub mtu: u32,
    pub addresses: Vec<IpNet>,
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Index into [`Plan::links`].
    pub link: usize,
    /// Index into [`LinkPlan::endpoints`].
    pub endpoint: usize,
}

/// A route: to a network, through a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub to: IpNet,
    pub via: IpAddr,
}

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkPlan {
    pub name: String,
    /// The medium that joins its ends.
    pub medium: Medium,
    pub mtu: u32,
    pub endpoints: Vec<EndpointPlan>,
}

/// The medium that joins a link's ends, with all that the type needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Medium {
    Veth,
    Bridge,
    /// A bridge behind a router that masquerades.
    Nat(NatPlan),
    /// Slices of a parent interface.
    Macvlan {
        /// Host interface; one is made for the link when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// Ethernet over UDP.
    Vxlan(VxlanPlan),
    Overlay(OverlayPlan),
}

/// The router of a `nat` link. Endpoint 0 is outside, the others are inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NatPlan {
    /// Router's addresses towards the outside endpoint.
    pub outside: Vec<IpNet>,
    /// Router's addresses on the inner bridge: the inner nodes' gateways.
    pub inside: Vec<IpNet>,
    /// For each inner endpoint (so from index 1), the addresses on the outer subnet under which the
    /// outside reaches it; same families and order as its own addresses.
    pub published: Vec<Vec<IpNet>>,
}

/// The underlay of a `vxlan` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VxlanPlan {
    pub vni: u32,
    pub port: u16,
    pub underlay_mtu: u32,
    /// Underlay address of each endpoint's tunnel end.
    pub underlay: Vec<IpNet>,
}

/// The hosts of an `overlay` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlayPlan {
    /// The carrier that joins them.
    pub carrier: Carrier,
    /// The cable that joins processes and containers to it.
    #[serde(default)]
    pub cable: Cable,
    pub underlay_mtu: u32,
    /// Underlay address of each endpoint's host; none when all are on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub underlay: Vec<IpNet>,
}

/// An end of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointPlan {
    /// Index into [`Plan::nodes`].
    pub node: usize,
    /// Index into [`NodePlan::interfaces`].
    pub interface: usize,
    /// The impairment of the frames that it sends.
    #[serde(default, skip_serializing_if = "Impairment::is_none")]
    pub impairment: Impairment,
}

impl Medium {
    pub fn kind(&self) -> LinkKind {
        match self {
            Medium::Veth => LinkKind::Veth,
            Medium::Bridge => LinkKind::Bridge,
            Medium::Nat(_) => LinkKind::Nat,
            Medium::Macvlan { .. } => LinkKind::Macvlan,
            Medium::Vxlan(_) => LinkKind::Vxlan,
            Medium::Overlay(_) => LinkKind::Overlay,
        }
    }
}

impl Plan {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.plan/1";

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The node and interface of a link's end.
    pub fn end(&self, link: usize, endpoint: usize) -> (&NodePlan, &InterfacePlan) {
        let end = &self.links[link].endpoints[endpoint];
        let node = &self.nodes[end.node];
        (node, &node.interfaces[end.interface])
    }

    /// The names of the interfaces of two nodes on the first link that joins them.
    pub fn joined(&self, from: &str, to: &str) -> Option<(&str, &str)> {
        let at = |link: &LinkPlan, name: &str| {
            let mut ends = link.endpoints.iter();
            let end = ends.find(|end| self.nodes[end.node].name == name)?;
            Some(self.nodes[end.node].interfaces[end.interface].name.as_str())
        };
        self.links
            .iter()
            .find_map(|link| Some((at(link, from)?, at(link, to)?)))
    }

    /// The address under which node `from` reaches node `to`: over `interface` of `to` when given,
    /// else over the first link that joins them. `None` when no link joins them in that family.
    pub fn reach(
        &self,
        from: &str,
        to: &str,
        interface: Option<&str>,
        ipv6: bool,
    ) -> Option<Reach> {
        let to_node = self.node(to)?;
        for target in to_node
            .interfaces
            .iter()
            .filter(|i| interface.is_none_or(|n| n == i.name))
        {
            let link = &self.links[target.link];
            let source = link
                .endpoints
                .iter()
                .enumerate()
                .find(|(i, e)| *i != target.endpoint && self.nodes[e.node].name == from);
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
                    source: source_address,
                    link: target.link,
                });
            }
        }
        None
    }

    /// The plan as the report draws it.
    pub fn topology(&self, levels: BTreeMap<String, String>) -> Topology {
        let nodes = self.nodes.iter().map(|n| TopologyNode {
            name: n.name.clone(),
            kind: n.kind.to_string(),
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
}

/// How one node reaches another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    pub address: IpAddr,
    /// Sender's own address on that link.
    pub source: IpAddr,
    pub link: usize,
}

impl Plan {
    /// The profile whose knobs are turned inside a node: that of a VM which follows the lab's tuning, as it
    /// is for the guest's own CPUs. Nodes of other kinds share the host's knobs.
    pub fn inside(&self, node: &NodePlan) -> Option<Profile> {
        let tuning = self.tuning.as_ref()?;
        let is_followed = node.kind == NodeKind::Vm && node.tuning.as_ref() == Some(&tuning.name);
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

impl NodePlan {
    /// Virtual CPUs, for a VM.
    pub fn vcpus(&self) -> u32 {
        self.cpus.map_or(1, |cpus| cpus.ceil() as u32)
    }

    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(cpus) = self.cpus {
            facts.push(format!("{cpus} CPU"));
        }
        if let Some(set) = &self.cpuset {
            facts.push(format!(
                "on CPU {set}{}",
                if self.isolate { ", its own" } else { "" }
            ));
        }
        if let Some(memory) = self.memory {
            facts.push(memory.to_string());
        }
        match self.kind {
            NodeKind::Container => {
                facts.push(self.runtime.to_string());
                facts.extend(self.security.facts());
            }
            NodeKind::Vm => facts.push(format!("{} kernel, {}", self.kernel, self.acceleration)),
            NodeKind::Native | NodeKind::Host => {}
        }
        facts
    }
}

impl LinkPlan {
    pub fn facts(&self) -> Vec<String> {
        let mut facts = vec![format!("mtu {}", self.mtu)];
        let first = self
            .endpoints
            .first()
            .map(|e| e.impairment)
            .unwrap_or_default();
        if self.endpoints.iter().all(|e| e.impairment == first) {
            facts.extend(first.rate.map(|r| format!("rate {r}")));
            facts.extend(first.delay.map(|d| format!("delay {d}")));
            facts.extend(first.jitter.map(|j| format!("jitter {j}")));
            facts.extend(first.loss.map(|l| format!("loss {}%", l * 100.0)));
        } else {
            facts.push("impaired differently by direction".into());
        }
        facts
    }
}
