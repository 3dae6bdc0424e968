//! Links of a lab as cables of a topology. containerlab joins two ends by a cable; a link with several is a bridge there.

use std::collections::HashMap;

use crate::containerlab::names::Names;
use crate::containerlab::remarks::Remarks;
use crate::diagnostic::Mark;
use crate::kinds::{Impairment, LinkKind, NodeKind};
use crate::plan::LinkPlan;
use crate::spec::yaml::Yaml;
use crate::spec::{Endpoint, Lab, Link};

/// Longest name of an interface: the kernel's IFNAMSIZ - 1.
const MAX_INTERFACE: usize = 15;

pub(super) struct Cables<'a> {
    lab: &'a Lab,
    kinds: HashMap<&'a str, NodeKind>,
    names: Names,
    remarks: &'a mut Remarks,
    /// Nodes that stand for links with several ends.
    pub bridges: Vec<(String, Mark)>,
    pub all: Vec<Yaml>,
    /// For each link, whether it is in the topology.
    pub kept: Vec<bool>,
}

impl<'a> Cables<'a> {
    pub(super) fn of(lab: &'a Lab, plans: &[LinkPlan], remarks: &'a mut Remarks) -> Cables<'a> {
        let mut cables = Cables {
            lab,
            kinds: lab
                .nodes
                .iter()
                .map(|node| (node.name.as_str(), node.kind))
                .collect(),
            names: Names::default(),
            remarks,
            bridges: Vec::new(),
            all: Vec::new(),
            kept: Vec::new(),
        };
        for node in &lab.nodes {
            cables.names.free(&node.name, usize::MAX);
        }
        for (link, plan) in lab.links.iter().zip(plans) {
            cables.add_link(link, plan);
        }
        cables
    }

    fn kind(&self, name: &str) -> NodeKind {
        self.kinds.get(name).copied().unwrap_or(NodeKind::Native)
    }

    fn add_link(&mut self, link: &'a Link, plan: &LinkPlan) {
        let ends = link.endpoints.iter();
        let ends = ends.map(|end| (end, self.kind(&end.node)));
        let there: Vec<(&Endpoint, NodeKind)> =
            ends.filter(|(_, kind)| *kind != NodeKind::Vm).collect();
        let is_kept = match link.kind.value {
            _ if there.len() < 2 => {
                self.remarks.links_left_out += 1;
                false
            }
            LinkKind::Veth => self.add_veth(link, plan, &there),
            LinkKind::Bridge => self.add_bridge(link, plan, &there),
            LinkKind::Vxlan | LinkKind::Overlay => {
                let message = format!(
                    "link `{}` of type {} becomes a bridge",
                    *link.name, link.kind.value
                );
                self.remarks.add(
                    link.kind.at,
                    message,
                    "containerlab has no tunnel between nodes of one host",
                );
                self.add_bridge(link, plan, &there)
            }
            LinkKind::Macvlan => self.add_macvlan(link, &there),
            LinkKind::Nat | LinkKind::Phys | LinkKind::Sriov | LinkKind::Passthrough => {
                let why = format!(
                    "link `{}` of type {} has no equivalent",
                    *link.name, link.kind.value
                );
                self.remarks
                    .link_left_out(link.kind.at, &why, "use `type: veth` or `bridge`");
                false
            }
        };
        self.kept.push(is_kept);
        for (end, _) in there
            .iter()
            .filter(|(end, _)| is_kept && !end.impairment.is_none())
        {
            let message = format!(
                "impairments of `{}:{}` are not in the topology",
                *end.node, *end.interface
            );
            let node = format!("clab-{}-{}", *self.lab.name, *end.node);
            self.remarks.add(
                end.node.at,
                message,
                netem(&node, &end.interface, &end.impairment),
            );
        }
    }

    fn add_veth(&mut self, link: &Link, plan: &LinkPlan, ends: &[(&Endpoint, NodeKind)]) -> bool {
        let [(first, first_kind), (second, second_kind)] = ends else {
            return false;
        };
        let mtu = ("mtu", Yaml::text(link.at, plan.mtu.to_string()));
        let (inside, outside) = match (first_kind.is_host(), second_kind.is_host()) {
            (true, true) => {
                let why = format!("link `{}` has both ends in the host", *link.name);
                self.remarks
                    .link_left_out(link.at, &why, "give one of them to another node");
                return false;
            }
            (false, false) if first.mac.is_some() || second.mac.is_some() => {
                let ends = Yaml::list(vec![mapping(first), mapping(second)]);
                let kind = Yaml::text(link.at, "veth");
                self.all.push(Yaml::map(
                    link.at,
                    vec![("type", kind), ("endpoints", ends), mtu],
                ));
                return true;
            }
            (false, false) => {
                let other = format!("{}:{}", *second.node, *second.interface);
                self.push_brief(link, first, &other, mtu);
                return true;
            }
            (true, false) => (second, first),
            (false, true) => (first, second),
        };
        if let Some(mac) = &outside.mac {
            let message = format!(
                "the MAC address of `{}:{}` is not in the topology",
                *outside.node, *outside.interface
            );
            self.remarks
                .add(mac.at, message, "containerlab sets none at the host's side");
        }
        if inside.mac.is_some() {
            let kind = Yaml::text(link.at, "host");
            let interface = Yaml::of(&outside.interface);
            self.all.push(Yaml::map(
                link.at,
                vec![
                    ("type", kind),
                    ("endpoint", mapping(inside)),
                    ("host-interface", interface),
                    mtu,
                ],
            ));
        } else {
            let other = format!("host:{}", *outside.interface);
            self.push_brief(link, inside, &other, mtu);
        }
        true
    }

    fn push_brief(&mut self, link: &Link, end: &Endpoint, other: &str, mtu: (&str, Yaml)) {
        let node = if self.kind(&end.node).is_host() {
            "host"
        } else {
            end.node.as_str()
        };
        let ends = vec![
            Yaml::text(end.node.at, format!("{node}:{}", *end.interface)),
            Yaml::text(end.node.at, other),
        ];
        let fields = vec![("endpoints", Yaml::list(ends)), mtu];
        self.all.push(Yaml::map(link.at, fields));
    }

    fn add_bridge(&mut self, link: &Link, plan: &LinkPlan, ends: &[(&Endpoint, NodeKind)]) -> bool {
        let bridge = self.names.free(&link.name, MAX_INTERFACE);
        let message = format!(
            "link `{}` becomes the bridge `{bridge}` of the host, which containerlab does not make",
            *link.name
        );
        let hint = format!(
            "before it deploys: `ip link add {bridge} type bridge && ip link set {bridge} up`"
        );
        self.remarks.add(link.at, message, hint);
        self.bridges.push((bridge.clone(), link.at));
        let mtu = || ("mtu", Yaml::text(link.at, plan.mtu.to_string()));
        let mut ports = Names::default();
        for (number, (end, kind)) in ends.iter().enumerate() {
            // Ports are interfaces of the host, where other labs have some too.
            let end_of_name = format!("-{number}");
            let port: String = bridge
                .chars()
                .take(MAX_INTERFACE - end_of_name.len())
                .collect();
            let port = ports.free(&(port + &end_of_name), MAX_INTERFACE);
            if end.mac.is_none() || kind.is_host() {
                self.push_brief(link, end, &format!("{bridge}:{port}"), mtu());
                continue;
            }
            let other = vec![
                ("node", Yaml::text(link.at, bridge.clone())),
                ("interface", Yaml::text(link.at, port)),
            ];
            let ends = Yaml::list(vec![mapping(end), Yaml::map(link.at, other)]);
            self.all.push(Yaml::map(
                link.at,
                vec![
                    ("type", Yaml::text(link.at, "veth")),
                    ("endpoints", ends),
                    mtu(),
                ],
            ));
        }
        true
    }

    fn add_macvlan(&mut self, link: &Link, ends: &[(&Endpoint, NodeKind)]) -> bool {
        let Some(parent) = link
            .parent
            .as_ref()
            .filter(|_| ends.iter().all(|(_, kind)| !kind.is_host()))
        else {
            let why = format!(
                "link `{}` of type macvlan has no interface of the host below",
                *link.name
            );
            self.remarks
                .link_left_out(link.kind.at, &why, "add `parent:`, or use `type: bridge`");
            return false;
        };
        for (end, _) in ends {
            let mut fields = vec![
                ("type", Yaml::text(link.kind.at, "macvlan")),
                ("endpoint", mapping(end)),
                ("host-interface", Yaml::of(parent)),
            ];
            fields.extend(link.mtu.map(|mtu| ("mtu", Yaml::of(&mtu))));
            self.all.push(Yaml::map(link.at, fields));
        }
        true
    }
}

/// An end as a mapping.
fn mapping(end: &Endpoint) -> Yaml {
    let mut fields = vec![
        ("node", Yaml::of(&end.node)),
        ("interface", Yaml::of(&end.interface)),
    ];
    fields.extend(end.mac.as_ref().map(|mac| ("mac", Yaml::of(mac))));
    Yaml::map(end.node.at, fields)
}

/// The command that impairs the frames that an interface sends.
fn netem(node: &str, interface: &str, impairment: &Impairment) -> String {
    let mut command = format!("`containerlab tools netem set -n {node} -i {interface}");
    if let Some(delay) = impairment.delay {
        command += &format!(" --delay {}us", delay.0 / 1000);
    }
    if let Some(jitter) = impairment.jitter {
        command += &format!(" --jitter {}us", jitter.0 / 1000);
    }
    if let Some(loss) = impairment.loss {
        // In percent, without the noise of binary fractions.
        command += &format!(" --loss {}", (loss * 1e6).round() / 1e4);
    }
    if let Some(rate) = impairment.rate {
        command += &format!(" --rate {}", rate.0 / 1000);
    }
    command + "` sets them once it is deployed"
}
