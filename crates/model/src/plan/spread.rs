//! Hosts for the nodes of a lab on several hosts that leave the choice to latlab (`host: auto`).
//!
//! Nodes stay together that a link joins which cannot lie between hosts. These groups are placed one by one, the largest
//! first: each where the host is least full then, and of hosts that are about as full, where most of its links lead.

use std::collections::BTreeMap;

use super::node::VM_MEMORY;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::kinds::{Carrier, LinkKind, NodeKind};
use crate::spec::{AUTO_HOST, Lab, Link, Node};
use crate::units::Bytes;

/// A node without a limit of its own counts as this part of a CPU.
const SMALL_CPUS: f64 = 0.1;
/// And as this much memory.
const SMALL_MEMORY: Bytes = Bytes(16 << 20);

/// The capacity of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub cpus: u32,
    /// Memory that is free.
    pub memory: Bytes,
}

/// Nodes that are placed together.
#[derive(Debug, Default)]
struct Group {
    nodes: Vec<usize>,
    cpus: f64,
    memory: u64,
    /// The host that one of them names.
    host: Option<Spanned<String>>,
}

/// The host of each node that leaves the choice. Errors: nodes that must be together and name two hosts, or that have room
/// nowhere.
pub fn spread(
    lab: &Lab,
    rooms: &BTreeMap<String, Room>,
) -> Result<BTreeMap<String, String>, Diagnostics> {
    let mut errors = Diagnostics::default();
    let mut groups = groups(lab, &mut errors);
    // Those whose host is given first, then the largest.
    groups.sort_by(|a, b| {
        let given = |group: &Group| group.host.is_none();
        let size = |group: &Group| group.memory.max((group.cpus * 1e9) as u64);
        (given(a), size(b), a.nodes[0]).cmp(&(given(b), size(a), b.nodes[0]))
    });
    let mut used: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    let mut places: BTreeMap<&str, &str> = BTreeMap::new();
    for group in &groups {
        let given = group.host.as_ref().map(|host| host.as_str());
        let free = |name: &&str| room_after(rooms, &used, name, group).is_some();
        let names = || lab.hosts.iter().map(|host| host.name.as_str());
        let chosen = match given {
            Some(host) => names().find(|name| *name == host),
            None => names().filter(free).min_by_key(|name| {
                let full = room_after(rooms, &used, name, group).unwrap_or(f64::MAX);
                let links = joined(lab, group, &places, name);
                ((full * 10.0) as u64, std::cmp::Reverse(links))
            }),
        };
        let Some(host) = chosen else {
            let first = &lab.nodes[group.nodes[0]];
            let names: Vec<&str> = group.nodes.iter().map(|node| name(lab, *node)).collect();
            let message = format!(
                "no host has {} of memory left for {}",
                Bytes(group.memory),
                names.join(", ")
            );
            errors.add(
                first.name.at,
                message,
                "give the lab another host, or its nodes less `memory`",
            );
            continue;
        };
        let taken = used.entry(host).or_default();
        taken.0 += group.cpus;
        taken.1 += group.memory;
        for node in &group.nodes {
            places.insert(name(lab, *node), host);
        }
    }
    let wanted = lab.nodes.iter().filter(|node| is_auto(node));
    let found = wanted.filter_map(|node| {
        let host = places.get(node.name.as_str())?;
        Some((node.name.value.clone(), (*host).to_owned()))
    });
    let found = found.collect();
    errors.into_result(found)
}

/// Gives nodes their hosts. A link between hosts whose ends have all come to one is a local one. Errors: a node without a
/// host.
pub fn settle(mut lab: Lab, places: &BTreeMap<String, String>) -> Result<Lab, Diagnostics> {
    let mut errors = Diagnostics::default();
    let auto: Vec<bool> = lab.nodes.iter().map(is_auto).collect();
    for node in lab.nodes.iter_mut().filter(|node| is_auto(node)) {
        let host = places.get(node.name.as_str());
        let is_there = |name: &&String| lab.hosts.iter().any(|host| host.name.value == **name);
        match host.filter(is_there) {
            Some(host) => {
                let at = node
                    .fields
                    .host
                    .as_ref()
                    .map_or(node.name.at, |host| host.at);
                node.fields.host = Some(Spanned::new(host.clone(), at));
            }
            None => {
                let message = format!("node `{}` has no host yet", *node.name);
                let hint = "`latlab deploy` places it; by hand: `--place NODE=HOST`";
                errors.add(node.name.at, message, hint);
            }
        }
    }
    let index = |name: &str| lab.nodes.iter().position(|node| *node.name == *name);
    let local: Vec<bool> = lab
        .links
        .iter()
        .map(|link| {
            let ends: Vec<usize> = ends(link).filter_map(index).collect();
            let host = |end: &usize| lab.nodes[*end].fields.host.as_ref().map(|host| &host.value);
            let is_one = ends.windows(2).all(|pair| host(&pair[0]) == host(&pair[1]));
            link.may_join_hosts() && is_one && ends.iter().any(|end| auto[*end])
        })
        .collect();
    for (link, _) in lab.links.iter_mut().zip(local).filter(|(_, local)| *local) {
        let at = link.carrier.map_or(link.at, |carrier| carrier.at);
        link.carrier = Some(Spanned::new(Carrier::Local, at));
        link.port = None;
    }
    errors.into_result(lab)
}

fn is_auto(node: &Node) -> bool {
    let host = node.fields.host.as_ref();
    host.is_some_and(|host| host.value == AUTO_HOST)
}

fn name(lab: &Lab, node: usize) -> &str {
    &lab.nodes[node].name
}

fn ends(link: &Link) -> impl Iterator<Item = &str> {
    link.endpoints.iter().map(|end| end.node.as_str())
}

/// Whether it is a cable between cards of hosts, which the nodes at its ends name.
fn joins_cards(lab: &Lab, link: &Link) -> bool {
    let is_named = |end: &str| lab.node(end).is_some_and(|node| !is_auto(node));
    link.kind.value == LinkKind::Phys && ends(link).all(is_named)
}

fn groups(lab: &Lab, errors: &mut Diagnostics) -> Vec<Group> {
    let index = |name: &str| lab.nodes.iter().position(|node| *node.name == *name);
    // The lowest number of the nodes that are together with each.
    let mut leader: Vec<usize> = (0..lab.nodes.len()).collect();
    let keeps_together = |link: &&Link| !link.may_join_hosts() && !joins_cards(lab, link);
    for link in lab.links.iter().filter(keeps_together) {
        let leaders: Vec<usize> = ends(link)
            .filter_map(index)
            .map(|end| leader[end])
            .collect();
        if let Some(lowest) = leaders.iter().min().copied() {
            for one in &mut leader {
                if leaders.contains(one) {
                    *one = lowest;
                }
            }
        }
    }
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for (number, node) in lab.nodes.iter().enumerate() {
        let group = groups.entry(leader[number]).or_default();
        group.nodes.push(number);
        let (cpus, memory) = demand(node);
        group.cpus += cpus;
        group.memory = group.memory.saturating_add(memory.0);
        let host = node.fields.host.as_ref().filter(|_| !is_auto(node));
        match (&group.host, host) {
            (Some(one), Some(other)) if one.value != other.value => {
                two_hosts(node, one, other, errors);
            }
            (None, Some(host)) => group.host = Some(host.clone()),
            _ => {}
        }
    }
    groups.into_values().collect()
}

fn two_hosts(
    node: &Node,
    one: &Spanned<String>,
    other: &Spanned<String>,
    errors: &mut Diagnostics,
) {
    let message = format!(
        "node `{}` is on host `{}`, and links join it to nodes of host `{}`",
        *node.name, other.value, one.value
    );
    let hint =
        "between hosts: `type: overlay` with `carrier: sealed`, `udp` or `vxlan`; or `type: phys`";
    errors.add(other.at, message, hint);
}

fn demand(node: &Node) -> (f64, Bytes) {
    let fields = &node.fields;
    let is_vm = fields.kind.is_some_and(|kind| kind.value == NodeKind::Vm);
    let (cpus, memory) = match is_vm {
        true => (1.0, VM_MEMORY),
        false => (SMALL_CPUS, SMALL_MEMORY),
    };
    (
        fields.cpus.map_or(cpus, |cpus| cpus.value),
        fields.memory.map_or(memory, |memory| memory.value),
    )
}

/// How full a host is with a group: the larger part of its CPUs and its memory. None: its memory is less.
fn room_after(
    rooms: &BTreeMap<String, Room>,
    used: &BTreeMap<&str, (f64, u64)>,
    host: &str,
    group: &Group,
) -> Option<f64> {
    let room = rooms.get(host)?;
    let (cpus, memory) = used.get(host).copied().unwrap_or_default();
    let memory = memory.saturating_add(group.memory);
    if memory > room.memory.0 {
        return None;
    }
    let part = (cpus + group.cpus) / f64::from(room.cpus.max(1));
    Some(part.max(memory as f64 / room.memory.0.max(1) as f64))
}

/// The number of links from a group to nodes on a host.
fn joined(lab: &Lab, group: &Group, places: &BTreeMap<&str, &str>, host: &str) -> usize {
    let is_own = |end: &str| group.nodes.iter().any(|node| name(lab, *node) == end);
    let links = lab.links.iter().filter(|link| ends(link).any(is_own));
    links
        .flat_map(ends)
        .filter(|end| places.get(end) == Some(&host))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(nodes: &str, links: &str) -> Lab {
        let text = format!(
            "name: wide\nhosts:\n  left: {{address: 192.0.2.1}}\n  right: {{ssh: r, address: 192.0.2.2}}\n\
             topology:\n  defaults: {{kind: native, host: auto}}\n  nodes:\n{nodes}  links:\n{links}"
        );
        Lab::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("t")))
    }

    fn rooms(left: u64, right: u64) -> BTreeMap<String, Room> {
        let room = |gib: u64| Room {
            cpus: 4,
            memory: Bytes(gib << 30),
        };
        BTreeMap::from([("left".into(), room(left)), ("right".into(), room(right))])
    }

    fn places(lab: &Lab, rooms: &BTreeMap<String, Room>) -> String {
        let places = spread(lab, rooms).unwrap_or_else(|e| panic!("{}", e.render("t")));
        let words: Vec<String> = places
            .iter()
            .map(|(node, host)| format!("{node} {host}"))
            .collect();
        words.join(", ")
    }

    #[test]
    fn nodes_are_divided_by_the_memory_of_hosts() {
        let vms = lab(
            "    a: {kind: vm, memory: 2GiB}\n    b: {kind: vm, memory: 2GiB}\n    c: {kind: vm, memory: 2GiB}\n",
            "    - {type: overlay, carrier: udp, endpoints: ['a:eth0', 'b:eth0', 'c:eth0']}\n",
        );
        assert_eq!(places(&vms, &rooms(8, 8)), "a left, b right, c left");
        assert_eq!(places(&vms, &rooms(2, 8)), "a right, b right, c right");
        let errors = spread(&vms, &rooms(2, 3)).unwrap_err().render("t");
        assert!(
            errors.contains("no host has 2GiB of memory left for c"),
            "{errors}"
        );
    }

    #[test]
    fn nodes_of_a_link_that_cannot_cross_stay_together_and_follow_their_links() {
        let many = lab(
            "    a: {host: right}\n    b: {}\n    c: {}\n    d: {}\n    e: {}\n",
            "    - endpoints: ['a:eth0', 'b:eth0']\n    - endpoints: ['c:eth0', 'd:eth0']\n    \
             - {type: overlay, carrier: sealed, endpoints: ['d:eth1', 'e:eth0']}\n",
        );
        assert_eq!(
            places(&many, &rooms(8, 8)),
            "b right, c left, d left, e left"
        );
        let settled = settle(many.clone(), &spread(&many, &rooms(8, 8)).unwrap()).unwrap();
        let carrier = settled.links[2].carrier.unwrap().value;
        assert_eq!(carrier, Carrier::Local, "no frame of it leaves the host");
        let text = settle(many, &BTreeMap::new()).unwrap_err().render("t");
        assert!(text.contains("node `b` has no host yet"), "{text}");
    }

    #[test]
    fn nodes_that_must_be_together_cannot_name_two_hosts() {
        let torn = lab(
            "    a: {host: left}\n    b: {}\n    c: {host: right}\n",
            "    - endpoints: ['a:eth0', 'b:eth0']\n    - endpoints: ['b:eth1', 'c:eth0']\n",
        );
        let errors = spread(&torn, &rooms(8, 8)).unwrap_err().render("t");
        let what = "node `c` is on host `right`, and links join it to nodes of host `left`";
        assert!(errors.contains(what), "{errors}");
    }
}
