//! From a lab and a machine's facts to everything that will be made, with no choice left open.
//!
//! Planning is pure. Whatever can be found wrong is found here, before anything changes: unknown
//! capabilities, cores that the machine does not have, address clashes, names already taken. The
//! plan is a document: it is saved with the lab, and `destroy` and the report need no lab file.

mod address;
mod blueprint;
mod check;
mod place;
mod run;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostics;
use crate::facts::Facts;
use crate::profile::{Isolation, Profile, Wanted};
use crate::results::{Topology, TopologyEndpoint, TopologyLink, TopologyNode};
use crate::spec::{
    Acceleration, Bind, Cable, Carrier, Impairment, Lab, LinkKind, Mac, NodeKind, Runtime, Security,
};
use crate::units::{Bytes, CpuList};

pub use blueprint::{Blueprint, Given, MemoryPlace, NicPlace, NodePlace, Share};
pub use place::Profiles;
pub use run::{RunPlan, Visit, describe, factors, plan_run};

/// Everything that will be made for a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`Plan::FORMAT`].
    pub format: String,
    /// Name of the lab.
    pub lab: String,
    /// The profile that the machine is tuned with while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningPlan>,
    /// Where everything runs, and why there.
    #[serde(default)]
    pub blueprint: Blueprint,
    /// Its nodes, in the order of the lab.
    pub nodes: Vec<NodePlan>,
    /// Its links.
    pub links: Vec<LinkPlan>,
}

/// What the machine's knobs are turned to while a lab is up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningPlan {
    /// As the lab names it.
    pub name: String,
    /// The whole profile as a document, so that a deployed lab does not depend on a file.
    pub profile: String,
    /// Its processors are a partition of the scheduler's, where the nodes' control groups go.
    pub partition: bool,
}

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// `host`, a directory, or an archive; as written.
    pub image: String,
    /// Processors' worth of time (a VM: virtual CPUs), when limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Processors that it may run on, when confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<CpuList>,
    /// It asked for processors of its own; which of those in `cpuset` they are is in the blueprint,
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
    /// Environment of its commands.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Host directories seen inside.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Commands run once it is ready.
    #[serde(default)]
    pub exec: Vec<String>,
    /// Script before measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Script during each measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Script before it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
    /// Which OCI runtime (containers).
    #[serde(default)]
    pub runtime: Runtime,
    /// What it may do beyond the default (containers).
    #[serde(default, skip_serializing_if = "Security::is_default")]
    pub security: Security,
    /// Which kernel (VMs).
    pub kernel: String,
    /// Kernel parameters (VMs): its profile's, then its own.
    #[serde(default)]
    pub boot: Vec<String>,
    /// How its virtual processors lie to each other (VMs), where each has a processor of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<GuestTopology>,
    /// How its memory is provided (VMs).
    #[serde(default, skip_serializing_if = "GuestMemory::is_plain")]
    pub guest_memory: GuestMemory,
    /// How its processor is provided (VMs). `auto` is resolved when it is planned.
    #[serde(default)]
    pub acceleration: Acceleration,
    /// Its interfaces, in the order of the links.
    pub interfaces: Vec<InterfacePlan>,
}

/// What a guest is told of its processors, so that its scheduler knows who shares a core and who a cache:
/// numbers of each in the next larger, as in QEMU's `-smp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTopology {
    /// Parts with a memory node of their own on the host.
    pub sockets: u32,
    /// Parts of these with a last cache of their own.
    pub dies: u32,
    /// Cores in each.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
}

/// How a VM's memory is provided (Welch 2015, table 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMemory {
    /// All of it is there from the start: the guest waits for no page later.
    pub preallocated: bool,
    /// It is never written out.
    pub locked: bool,
    /// It is made of huge pages.
    pub huge: bool,
}

impl GuestMemory {
    /// What a profile wants.
    pub fn of(profile: &Profile) -> GuestMemory {
        let wants = |knob: &str| profile.knobs.contains_key(knob);
        GuestMemory {
            preallocated: profile.cores != Isolation::Shared,
            locked: wants("memory-lock"),
            huge: matches!(profile.knobs.get("huge-pages"), Some(Wanted::Size(size)) if size.0 > 0),
        }
    }

    /// Nothing in particular.
    fn is_plain(&self) -> bool {
        *self == GuestMemory::default()
    }
}

/// An interface inside a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterfacePlan {
    /// Its name inside the node.
    pub name: String,
    /// Its MAC address.
    pub mac: Mac,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Routes through it.
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
    /// Destination.
    pub to: IpNet,
    /// Gateway.
    pub via: IpAddr,
}

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// What joins its ends.
    pub medium: Medium,
    /// MTU of its interfaces.
    pub mtu: u32,
    /// Its ends.
    pub endpoints: Vec<EndpointPlan>,
}

/// What joins a link's ends, with all that the type needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Medium {
    /// Point to point.
    Veth,
    /// A learning switch.
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
    /// latlab's own switch.
    Overlay(OverlayPlan),
}

/// The router of a `nat` link. End point 0 is outside, the others are inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NatPlan {
    /// Router's addresses towards the outside end point.
    pub outside: Vec<IpNet>,
    /// Router's addresses on the inner bridge: the inner nodes' gateways.
    pub inside: Vec<IpNet>,
    /// For each inner end point (so from index 1), the addresses on the outer subnet under which the
    /// outside reaches it; same families and order as its own addresses.
    pub published: Vec<Vec<IpNet>>,
}

/// The underlay of a `vxlan` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VxlanPlan {
    /// Network identifier.
    pub vni: u32,
    /// UDP port.
    pub port: u16,
    /// MTU of the underlay.
    pub underlay_mtu: u32,
    /// Underlay address of each end point's tunnel end.
    pub underlay: Vec<IpNet>,
}

/// The hosts of an `overlay` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlayPlan {
    /// What joins them.
    pub carrier: Carrier,
    /// What joins processes and containers to it.
    #[serde(default)]
    pub cable: Cable,
    /// MTU of the underlay.
    pub underlay_mtu: u32,
    /// Underlay address of each end point's host; none when all are on one.
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
    /// What it does to the frames that it sends.
    #[serde(default, skip_serializing_if = "Impairment::is_none")]
    pub impairment: Impairment,
}

impl Medium {
    /// The type's word.
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
    /// Address to send to.
    pub address: IpAddr,
    /// Sender's own address on that link.
    pub source: IpAddr,
    /// Index of the link.
    pub link: usize,
}

impl Plan {
    /// The profile whose knobs are turned inside a node: that of a VM which follows the lab's tuning, as it
    /// is for the guest's own processors. Nodes of other kinds share the host's knobs.
    pub fn inside(&self, node: &NodePlan) -> Option<Profile> {
        let tuning = self.tuning.as_ref()?;
        let is_followed = node.kind == NodeKind::Vm && node.tuning.as_ref() == Some(&tuning.name);
        let profile = Profile::parse(&tuning.profile, &|_| None).ok();
        let profile = profile.filter(|_| is_followed)?;
        let inside = profile.in_guest(node.vcpus());
        (!inside.knobs.is_empty()).then_some(inside)
    }

    /// The processors inside a node on which what is measured runs, where they are a part of it: a tuned
    /// guest's, beside those that do its housekeeping.
    pub fn quiet_inside(&self, node: &NodePlan) -> Option<CpuList> {
        let inside = self.inside(node)?;
        let partition = inside.knobs.contains_key("cpuset");
        partition.then(|| CpuList::new((1..node.vcpus()).collect()))
    }
}

impl NodePlan {
    /// Virtual processors, for a VM.
    pub fn vcpus(&self) -> u32 {
        self.cpus.map_or(1, |cpus| cpus.ceil() as u32)
    }

    /// Short facts for people.
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
    /// Short facts for people.
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

/// Plans `lab` on a machine, with the built-in tuning profiles.
///
/// # Errors
/// Everything that is wrong, each with its place in the lab's text.
pub fn plan(lab: &Lab, facts: &Facts) -> Result<Plan, Diagnostics> {
    plan_with(lab, facts, &Profile::builtin)
}

/// Where everything of `lab` would run; what else the machine may lack is not asked.
///
/// # Errors
/// Cores that cannot be given, with the nearest that could.
pub fn blueprint(
    lab: &Lab,
    facts: &Facts,
    profiles: Profiles<'_>,
) -> Result<Blueprint, Diagnostics> {
    let mut errors = Diagnostics::default();
    let blueprint = place::place(lab, facts, profiles, &mut errors);
    errors.into_result(blueprint)
}

/// Plans `lab` on a machine, with these tuning profiles.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(lab: &Lab, facts: &Facts, profiles: Profiles<'_>) -> Result<Plan, Diagnostics> {
    let mut errors = Diagnostics::default();
    check::check(lab, facts, &mut errors);
    let blueprint = place::place(lab, facts, profiles, &mut errors);
    let mut nodes = place::node_plans(lab, &blueprint, facts, profiles);
    let links = address::assign(lab, &mut nodes, &mut errors);
    for node in &mut nodes {
        if node.acceleration == Acceleration::Auto {
            let kvm = facts.capabilities.get(Facts::KVM).is_some_and(|c| c.works);
            node.acceleration = if kvm {
                Acceleration::Kvm
            } else {
                Acceleration::Tcg
            };
        }
    }
    let plan = Plan {
        format: Plan::FORMAT.into(),
        lab: lab.name.value.clone(),
        tuning: place::tuning(lab, profiles, &mut errors),
        blueprint,
        nodes,
        links,
    };
    errors.into_result(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with `cpus` processors where everything works.
    fn machine(cpus: u32) -> Facts {
        let tools = ["crun", "runc", "qemu-system-x86_64", "nft"];
        Facts {
            cpus: CpuList::new((0..cpus).collect()),
            tools: tools.iter().map(|t| (t.to_string(), "1".into())).collect(),
            ..Facts::default()
        }
    }

    fn planned(topology: &str) -> Result<Plan, Diagnostics> {
        let lab = Lab::parse(&format!("name: t\ntopology:\n{topology}")).expect("a readable lab");
        plan(&lab, &machine(4))
    }

    #[test]
    fn every_end_gets_addresses_of_both_families() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links:
    - endpoints: ['a:eth0', 'b:eth0']
    - {type: bridge, endpoints: ['a:eth1', 'b:eth1'], mtu: 1000}",
        )
        .unwrap();
        let show = |i: &InterfacePlan| {
            i.addresses
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            show(&plan.nodes[0].interfaces[0]),
            ["198.18.0.1/24", "fd4c:61:62::1/64"]
        );
        assert_eq!(
            show(&plan.nodes[1].interfaces[0]),
            ["198.18.0.2/24", "fd4c:61:62::2/64"]
        );
        // IPv6 does not run below 1280 bytes.
        assert_eq!(show(&plan.nodes[1].interfaces[1]), ["198.18.1.2/24"]);
        let reach = plan.reach("a", "b", None, false).unwrap();
        assert_eq!(
            (reach.address.to_string(), reach.link),
            ("198.18.0.2".into(), 0)
        );
        assert_eq!(plan.reach("a", "b", Some("eth1"), false).unwrap().link, 1);
        assert_eq!(plan.reach("a", "b", Some("eth1"), true), None);
    }

    #[test]
    fn behind_a_nat_the_outside_sees_published_addresses() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}}
  links: [{type: nat, endpoints: ['a:eth0', 'b:eth0', 'c:eth0']}]",
        )
        .unwrap();
        let Medium::Nat(nat) = &plan.links[0].medium else {
            panic!()
        };
        assert_eq!(nat.published.len(), 2);
        let inner = plan.reach("b", "a", None, false).unwrap();
        assert_eq!(
            inner.address,
            plan.nodes[0].interfaces[0].addresses[0].addr()
        );
        let outer = plan.reach("a", "c", None, false).unwrap();
        assert_eq!(outer.address, nat.published[1][0].addr());
        assert!(
            nat.outside[0].contains(&outer.address),
            "published on the outer subnet"
        );
        let side = plan.reach("b", "c", None, false).unwrap();
        assert_eq!(
            side.address,
            plan.nodes[2].interfaces[0].addresses[0].addr()
        );
        assert_eq!(plan.nodes[1].interfaces[0].routes.len(), 2);
    }

    #[test]
    fn given_addresses_are_kept_and_avoided() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links:
    - endpoints: [{node: a, interface: eth0, ipv4: 10.9.0.1/29, mac: '02:00:00:00:00:01'}, 'b:eth0']",
        )
        .unwrap();
        assert_eq!(
            plan.nodes[0].interfaces[0].mac.to_string(),
            "02:00:00:00:00:01"
        );
        assert_eq!(
            plan.nodes[1].interfaces[0].addresses[0].to_string(),
            "10.9.0.2/29"
        );
    }

    #[test]
    fn a_thousand_nodes_fit_one_bridge() {
        let nodes: String = (0..1000)
            .map(|i| format!("    n{i}: {{kind: native}}\n"))
            .collect();
        let ends: String = (0..1000).map(|i| format!("'n{i}:eth0',")).collect();
        let plan = planned(&format!(
            "  nodes:\n{nodes}  links: [{{type: bridge, endpoints: [{ends}]}}]"
        ));
        let plan = plan.unwrap();
        let last = plan.nodes[999].interfaces[0].addresses[0];
        assert_eq!(last.to_string(), "198.18.3.232/22");
    }

    #[test]
    fn exclusive_cores_end_where_the_machine_does() {
        let lab =
            |cpus: u32| format!("  nodes: {{a: {{kind: native, cpus: {cpus}, isolate: true}}}}");
        let plan = planned(&lab(3)).unwrap();
        assert_eq!(plan.nodes[0].cpuset.as_ref().unwrap().to_string(), "1-3");
        let errors = planned(&lab(4)).unwrap_err().render("t");
        assert!(
            errors.contains("wants 4 exclusive CPU(s); 3 of this machine's 4"),
            "{errors}"
        );
    }

    #[test]
    fn nobody_else_runs_on_exclusive_cores() {
        let plan = planned(
            "  nodes:
    a: {kind: native, isolate: true}
    b: {kind: native, cpuset: 1-2}
    c: {kind: native}",
        )
        .unwrap();
        let sets: Vec<String> = plan
            .nodes
            .iter()
            .map(|n| n.cpuset.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(sets, ["3", "1-2", "0-2"]);
        let clash = "  nodes:
    a: {kind: native, isolate: true, cpuset: \"1\"}
    b: {kind: native, cpuset: 1-2}";
        let errors = planned(clash).unwrap_err().render("t");
        assert!(
            errors.contains("t:5:31: CPU 1 of node `b` belongs to node `a` alone"),
            "{errors}"
        );
    }

    #[test]
    fn a_plan_survives_being_saved() {
        let plan = planned(
            "  nodes: {a: {kind: vm}, b: {kind: container, cpus: 1, memory: 64MiB}}
  links: [{type: vxlan, endpoints: ['a:eth0', 'b:eth0'], rate: 1Gbit}]",
        )
        .unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
