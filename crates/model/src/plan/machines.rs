//! A lab's plan together with the machines that it is for: one, or the hosts of a lab on several.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::blueprint::Blueprint;
use super::document::Plan;
use super::link::LinkPlan;
use super::node::NodePlan;
use super::planner::addressed;
use super::resolve;
use crate::diagnostic::Diagnostics;
use crate::facts::{Facts, Nic};
use crate::kinds::Acceleration;
use crate::results::{Environment, HostBrief, Topology};
use crate::spec::{Act, Lab, Measurement};
use crate::units::CpuList;

/// A host's part of a lab as its own latlab planned it, with what that machine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPart {
    pub plan: Plan,
    pub facts: Facts,
}

/// A lab planned for its machines.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedLab {
    pub plan: Plan,
    pub places: Places,
    /// The facts of each host, by its name; of a single machine under an empty one.
    pub(super) facts: BTreeMap<String, Facts>,
}

/// The hosts of a lab's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// None of a lab on one machine, and of nodes whose host is not chosen yet.
    host_of: BTreeMap<String, String>,
    has_hosts: bool,
    /// The usable CPUs of each host.
    cpus: BTreeMap<String, CpuList>,
}

/// The machines of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machines<'a> {
    /// The host of all its nodes; empty for the only machine.
    One(&'a str),
    Several,
    /// The host of a node is not chosen yet.
    NotChosen,
}

/// Name of the only machine of a lab without hosts.
const HERE: &str = "";

impl Places {
    /// The host of a node; empty for the only machine.
    pub fn host_of(&self, node: &str) -> &str {
        self.host_of.get(node).map_or(HERE, String::as_str)
    }

    /// The usable CPUs of a host.
    pub fn cpus_of(&self, host: &str) -> Vec<u32> {
        let cpus = self.cpus.get(host);
        cpus.map_or_else(Vec::new, |cpus| cpus.iter().collect())
    }

    /// The machines that have the nodes of a measurement.
    pub fn of(&self, m: &Measurement) -> Machines<'_> {
        if !self.has_hosts {
            return Machines::One(HERE);
        }
        let names: Vec<&str> = self.host_of.keys().map(String::as_str).collect();
        let ends = m.ends.iter();
        let mut nodes: Vec<&str> = ends
            .flat_map(|ends| [ends.from.node.as_str(), ends.to.node.as_str()])
            .collect();
        nodes.extend(m.through.iter().map(|node| node.as_str()));
        if let Some(workload) = &m.workload {
            nodes.extend(workload.nodes(&names));
            nodes.extend(workload.from.iter().map(|node| node.as_str()));
        }
        for action in &m.actions {
            nodes.push(&action.node);
            if let Act::Migrate { to } = &action.act {
                nodes.push(to);
            }
        }
        let hosts: BTreeSet<&str> = nodes.into_iter().map(|node| self.host_of(node)).collect();
        let mut hosts = hosts.into_iter();
        match (hosts.next(), hosts.next()) {
            (Some(HERE) | None, _) => Machines::NotChosen,
            (Some(host), None) => Machines::One(host),
            _ => Machines::Several,
        }
    }
}

impl PlannedLab {
    /// A lab on the machine of these facts.
    pub fn on_one(plan: Plan, facts: &Facts) -> PlannedLab {
        PlannedLab {
            plan,
            places: Places::default(),
            facts: BTreeMap::from([(HERE.to_owned(), facts.clone())]),
        }
    }

    /// A lab on hosts, from the plans of its parts: nodes are as their hosts planned them, and links join all their ends.
    /// Errors: addresses that clash.
    pub fn on_hosts(
        lab: &Lab,
        parts: BTreeMap<String, PlannedPart>,
    ) -> Result<PlannedLab, Diagnostics> {
        let (mut nodes, mut links) = addressed(lab)?;
        let mut places = BTreeMap::new();
        for (host, part) in &parts {
            for planned in &part.plan.nodes {
                let Some(node) = nodes.iter_mut().find(|node| node.name == planned.name) else {
                    continue;
                };
                places.insert(node.name.clone(), host.clone());
                let whole = std::mem::replace(node, planned.clone());
                // A part counts only its own links and ends.
                for (own, whole) in node.interfaces.iter_mut().zip(whole.interfaces) {
                    (own.link, own.endpoint) = (whole.link, whole.endpoint);
                }
            }
            for planned in &part.plan.links {
                if let Some(link) = links.iter_mut().find(|link| link.name == planned.name) {
                    link.medium = planned.medium.clone();
                    link.mtu = link.mtu.min(planned.mtu);
                }
            }
        }
        for link in &mut links {
            let all = interfaces_of(link, &nodes, &places, &parts);
            if let (Some(own), Some(all)) = (link.medium.interfaces_mut(), all) {
                *own = all;
            }
        }
        let plan = Plan {
            format: Plan::FORMAT.into(),
            lab: lab.name.value.clone(),
            tuning: None,
            blueprint: Blueprint::default(),
            names: resolve::names(&nodes, &links),
            nodes,
            links,
        };
        let facts = parts.into_iter().map(|(host, part)| (host, part.facts));
        let facts: BTreeMap<String, Facts> = facts.collect();
        let cpus = facts.iter();
        let cpus = cpus.map(|(host, facts)| (host.clone(), facts.cpus.clone()));
        Ok(PlannedLab {
            plan,
            places: Places {
                has_hosts: true,
                host_of: places,
                cpus: cpus.collect(),
            },
            facts,
        })
    }

    /// A lab on hosts of which nothing is known. Errors: addresses that clash.
    pub fn on_unknown_hosts(lab: &Lab) -> Result<PlannedLab, Diagnostics> {
        let mut planned = PlannedLab::on_hosts(lab, BTreeMap::new())?;
        let nodes = lab.nodes.iter().filter_map(|node| {
            let host = node.fields.host.as_ref()?;
            let is_chosen = lab.hosts.iter().any(|one| one.name.value == host.value);
            is_chosen.then(|| (node.name.value.clone(), host.value.clone()))
        });
        planned.places.host_of = nodes.collect();
        Ok(planned)
    }

    /// All its machines in one.
    pub fn brief(&self) -> HostBrief {
        let all: Vec<&HostBrief> = self.facts.values().map(|facts| &facts.brief).collect();
        let mut brief = HostBrief::joined(&all);
        if self.places.has_hosts {
            let names: Vec<&str> = self.facts.keys().map(String::as_str).collect();
            brief.cpu = format!(
                "{} hosts ({}): {}",
                names.len(),
                names.join(", "),
                brief.cpu
            );
        }
        brief
    }

    /// Its picture in reports.
    pub(super) fn topology(&self, levels: BTreeMap<String, String>) -> Topology {
        let mut topology = self.plan.topology(levels);
        for node in &mut topology.nodes {
            let host = self.places.host_of(&node.name);
            if !host.is_empty() {
                node.facts.insert(0, format!("on host {host}"));
            }
        }
        topology
    }

    /// The environment that its nodes are in, as reports show it.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = Environment::default();
        let shown = &mut environment.facts;
        for node in &self.plan.nodes {
            let mut about = node.body.environment();
            let host = self.places.host_of(&node.name);
            if !host.is_empty() {
                about += &format!(" on host {host}");
            }
            shown.insert(node.name.clone(), about);
        }
        let brief = self.brief();
        shown.insert("cgroup".into(), brief.cgroup);
        shown.insert("clock".into(), brief.clocksource);
        environment.emulation = self.emulation();
        environment.emulated = !environment.emulation.is_empty();
        environment
    }

    /// Its machines, nodes and cards that are emulated, each with what emulates it.
    fn emulation(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (host, facts) in &self.facts {
            if facts.brief.is_emulated() {
                let name = facts.brief.hypervisor.as_deref().unwrap_or_default();
                let name = name.replacen(" (", ", ", 1).replacen(')', "", 1);
                found.push(match host.as_str() {
                    HERE => format!("the machine ({name})"),
                    host => format!("host {host} ({name})"),
                });
            }
        }
        let emulated = |node: &&NodePlan| {
            let acceleration = node.body.acceleration();
            acceleration.is_some_and(|how| how != Acceleration::Kvm)
        };
        let nodes = self.plan.nodes.iter().filter(emulated);
        found.extend(nodes.map(|node| format!("VM {} (QEMU, software emulation)", node.name)));
        for link in &self.plan.links {
            for (end, interface) in link.endpoints.iter().zip(link.medium.interfaces()) {
                let host = self.places.host_of(&self.plan.nodes[end.node].name);
                let card = self.facts.get(host).and_then(|facts| facts.nic(interface));
                let Some(card) = card.and_then(|card| emulated_card(card, host)) else {
                    continue;
                };
                if !found.contains(&card) {
                    found.push(card);
                }
            }
        }
        found
    }
}

/// The interfaces of hosts at all ends of a link, in their order: each part has those of its own ends. None while a host
/// is not planned.
fn interfaces_of(
    link: &LinkPlan,
    nodes: &[NodePlan],
    places: &BTreeMap<String, String>,
    parts: &BTreeMap<String, PlannedPart>,
) -> Option<Vec<String>> {
    let in_part = |part: &PlannedPart| {
        let mut links = part.plan.links.iter();
        let own = links.find(|own| own.name == link.name);
        own.map_or_else(Vec::new, |own| own.medium.interfaces().to_vec())
    };
    let mut given: BTreeMap<&str, _> = parts
        .iter()
        .map(|(host, part)| (host.as_str(), in_part(part).into_iter()))
        .collect();
    let ends = link.endpoints.iter();
    ends.map(|end| {
        let host = places.get(&nodes[end.node].name)?;
        given.get_mut(host.as_str())?.next()
    })
    .collect()
}

/// A card that is no hardware, with its driver and what makes it.
fn emulated_card(card: &Nic, host: &str) -> Option<String> {
    let maker = card.emulated_by.as_ref()?;
    let driver = card.driver.as_ref().map(|driver| format!("{driver}, "));
    let driver = driver.unwrap_or_default();
    let place = match host {
        HERE => String::new(),
        host => format!(" of host {host}"),
    };
    Some(format!("card {}{place} ({driver}by {maker})", card.name))
}

#[cfg(test)]
mod tests {
    use super::super::{Part, plan_run_with};
    use super::*;
    use crate::profile::Profile;
    use crate::spec::{LabSource, Study};

    const LAB: &str = "name: wide
hosts:
  left: {address: 192.0.2.1}
  right: {ssh: right, address: 192.0.2.2}
topology:
  nodes:
    a: {kind: native, host: left}
    b: {kind: native, host: right}
    c: {kind: native, host: right}
  links:
    - {type: overlay, carrier: udp, mtu: 1400, endpoints: ['a:eth0', 'b:eth0']}
    - {endpoints: ['b:eth1', 'c:eth0']}
";

    fn parts(lab: &Lab) -> BTreeMap<String, PlannedPart> {
        let part = |host: &str| {
            let facts = Facts {
                cpus: CpuList::new(vec![0, 1, 2, 3]),
                brief: HostBrief {
                    cpu: "a CPU".into(),
                    kernel: format!("of {host}"),
                    ..HostBrief::default()
                },
                ..Facts::default()
            };
            let part = Part::of(lab, host).unwrap();
            let plan = part.plan(&facts, &Profile::builtin).unwrap();
            (host.to_owned(), PlannedPart { plan, facts })
        };
        ["left", "right"].map(part).into_iter().collect()
    }

    #[test]
    fn the_parts_of_a_lab_join_to_the_whole() {
        let lab = Lab::parse(LAB).unwrap();
        let planned = PlannedLab::on_hosts(&lab, parts(&lab)).unwrap();
        let plan = &planned.plan;
        let reach = |from: &str, to: &str| {
            let reach = plan.reach(from, to, false).unwrap();
            (reach.address.to_string(), plan.links[reach.link].mtu)
        };
        assert_eq!(reach("a", "b"), ("198.18.0.2".into(), 1400));
        assert_eq!(reach("c", "b"), ("198.18.2.1".into(), 1500));
        assert_eq!(plan.reach("a", "c", false), None);
        assert_eq!(plan.joined("b", "c"), Some(("eth1", "eth0")));
        let brief = planned.brief();
        assert_eq!(brief.kernel, "of left | of right");
        assert_eq!(brief.cpu, "2 hosts (left, right): a CPU");
        assert_eq!(planned.environment().facts["b"], "native on host right");
        assert_eq!(planned.places.host_of("c"), "right");
        assert_eq!(planned.places.cpus_of("left"), [0, 1, 2, 3]);
        let topology = planned.topology(BTreeMap::new());
        assert_eq!(topology.nodes[0].facts[0], "on host left");
    }

    #[test]
    fn each_end_of_a_wire_has_the_card_of_its_own_host() {
        let wire =
            "    - {type: phys, endpoints: ['a:eth1', 'c:eth1'], interfaces: [nic1, nic0]}\n";
        let lab =
            Lab::parse(&(LAB.to_owned() + wire)).unwrap_or_else(|e| panic!("{}", e.render("t")));
        let part = |host: &str| {
            let card = |name: &str| Nic {
                name: name.into(),
                emulated_by: (host == "left").then(|| "QEMU".to_owned()),
                ..Nic::default()
            };
            let mut facts = Facts {
                cpus: CpuList::new(vec![0, 1]),
                interfaces: ["nic0", "nic1"].map(str::to_owned).to_vec(),
                ..Facts::default()
            };
            facts.machine.nics = ["nic0", "nic1"].map(card).to_vec();
            let part = Part::of(&lab, host).unwrap();
            let plan = part.plan(&facts, &Profile::builtin);
            let plan = plan.unwrap_or_else(|e| panic!("{}", e.render("t")));
            (host.to_owned(), PlannedPart { plan, facts })
        };
        let parts = ["left", "right"].map(part).into_iter().collect();
        let planned = PlannedLab::on_hosts(&lab, parts).unwrap();
        let wire = &planned.plan.links[2].medium;
        assert_eq!(wire.interfaces(), ["nic1", "nic0"]);
        let emulation = planned.environment().emulation;
        assert_eq!(emulation, ["card nic1 of host left (by QEMU)"]);
    }

    #[test]
    fn a_measurement_is_on_one_host_or_between_several() {
        let text = |measurement: &str, lab: &str| {
            let lab: String = lab.lines().map(|line| format!("  {line}\n")).collect();
            format!("name: s\nlab:\n{lab}measurements: [{measurement}]\nreplicates: 1\n")
        };
        let planned = |measurement: &str, lab: &str| {
            let study = Study::parse(&text(measurement, lab)).unwrap();
            let LabSource::Inline(tree) = &study.lab else {
                panic!("it is inline")
            };
            let run = plan_run_with(&study, tree, &mut |lab, _| match lab
                .nodes
                .iter()
                .all(|node| node.fields.host.as_ref().unwrap().value != "auto")
            {
                true => PlannedLab::on_hosts(lab, parts(lab)),
                false => PlannedLab::on_unknown_hosts(lab),
            });
            run.map(|run| match run.places[0].of(&study.measurements[0]) {
                Machines::One(host) => host.to_owned(),
                other => format!("{other:?}"),
            })
        };
        let of = |measurement: &str| planned(measurement, LAB).unwrap();
        assert_eq!(of("{probe: rr, from: a, to: b}"), "Several");
        assert_eq!(of("{probe: packets, from: b, to: c}"), "right");
        let refused = planned("{probe: packets, from: a, to: b}", LAB).unwrap_err();
        let refused = refused.render("s");
        assert!(refused.contains("by two machines' clocks"), "{refused}");
        let open = LAB.replace(
            "b: {kind: native, host: right}",
            "b: {kind: native, host: auto}",
        );
        let measurement = "{probe: packets, from: a, to: b}";
        assert_eq!(planned(measurement, &open).unwrap(), "NotChosen");
    }
}
