//! Interfaces of the host that a lab names: below a macvlan, for nodes to have, and new ones of `host` nodes.

use std::collections::{HashMap, HashSet};

use super::wiring::RESET_HINT;
use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};
use crate::facts::{Facts, Nic};
use crate::kinds::{GuestStart, VmAttachment};
use crate::spec::{Endpoint, Lab, Link, LinkKind, Node};

pub fn check(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    for link in &lab.links {
        check_parent(link, facts, errors);
    }
    check_given(lab, facts, errors);
    check_host_names(lab, facts, errors);
}

fn check_parent(link: &Link, facts: &Facts, errors: &mut Diagnostics) {
    let unknown = |p: &&Spanned<String>| !facts.interfaces.contains(&p.value);
    let Some(parent) = link.parent.as_ref().filter(unknown) else {
        return;
    };
    let message = format!(
        "parent `{}` of link `{}` is not an interface of this machine",
        shown(parent),
        *link.name
    );
    let interfaces: Vec<&str> = facts.interfaces.iter().map(String::as_str).collect();
    let hint = if interfaces.is_empty() {
        "remove `parent:`; latlab then makes one".to_string()
    } else {
        format!(
            "{}, or remove `parent:`; latlab then makes one",
            hint_one_of(parent, &interfaces).trim_end_matches('?')
        )
    };
    errors.add(parent.at, message, hint);
}

/// Interfaces that nodes get, whole or functions of them.
fn check_given(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let mut seen: HashMap<&str, &Endpoint> = HashMap::new();
    let mut functions: HashMap<&str, u32> = HashMap::new();
    for link in lab.links.iter().filter(|l| l.kind.value.is_hardware()) {
        let is_whole = is_whole(link);
        for (end, interface) in link.endpoints.iter().zip(&link.interfaces) {
            check_end(lab, link, end, errors);
            check_driven(lab, link, end, errors);
            let other = seen.insert(interface, end);
            if let Some(other) =
                other.filter(|_| is_whole || !functions.contains_key(interface.as_str()))
            {
                let ends = [other, end].map(|e| format!("`{}:{}`", *e.node, *e.interface));
                let message = format!("`{}` is given to {}", shown(interface), ends.join(" and "));
                errors.add(
                    interface.at,
                    message,
                    "name each interface of the host once",
                );
            }
            check_there(link, interface, facts, errors);
            check_timestamps(lab, link, (end, interface), facts, errors);
            if is_whole {
                let is_free = check_free(link, interface, facts, errors);
                if is_free && link.kind.value == LinkKind::Passthrough {
                    check_port(link, interface, facts, errors);
                }
            } else {
                let wanted = functions.entry(interface).or_default();
                *wanted += 1;
                check_functions(link, interface, *wanted, facts, errors);
            }
        }
    }
}

/// Whether its ends take interfaces from the host.
fn is_whole(link: &Link) -> bool {
    matches!(link.kind.value, LinkKind::Phys | LinkKind::Passthrough)
}

fn check_end(lab: &Lab, link: &Link, end: &Endpoint, errors: &mut Diagnostics) {
    let node = lab.node(&end.node);
    if node.is_some_and(|node| node.kind.is_host()) {
        let message = format!(
            "link `{}`, of type {}, ends at `{}`: the host has its interfaces already",
            *link.name, link.kind.value, *end.node
        );
        errors.add(end.node.at, message, "use another kind of node");
    }
}

fn check_there(link: &Link, interface: &Spanned<String>, facts: &Facts, errors: &mut Diagnostics) {
    if facts.interfaces.contains(&interface.value) {
        return;
    }
    let (name, named) = (&link.name.value, shown(interface));
    let message = format!("`{named}` of link `{name}` is not an interface of this machine");
    let is_whole = is_whole(link);
    let all = facts.interfaces.iter().map(String::as_str);
    let wiring = facts.wiring.iter();
    let ports = wiring.flat_map(|wiring| wiring.ports.iter().map(|port| port.name.as_str()));
    let all: Vec<&str> = all
        .filter(|n| !(is_whole && facts.interfaces_in_use.contains_key(*n)))
        .chain(ports)
        .collect();
    let hint = match all.as_slice() {
        [] => "`ip link` lists them; all are in use".to_owned(),
        all => hint_one_of(interface, all),
    };
    errors.add(interface.at, message, hint);
}

/// Refuses an end without timestamps of its card on a link that has them.
fn check_timestamps(
    lab: &Lab,
    link: &Link,
    (end, interface): (&Endpoint, &Spanned<String>),
    facts: &Facts,
    errors: &mut Diagnostics,
) {
    let Some(by) = link.timestamps.filter(|by| by.value.is_hardware()) else {
        return;
    };
    let node = lab.node(&end.node);
    let (why, hint) = match facts.nic(interface) {
        _ if node.is_some_and(|node| node.kind.is_guest()) => (
            format!("VM `{}` does not have its card", *end.node),
            "use a container or a native node, or leave `timestamps` out",
        ),
        Some(nic) if nic.hardware_timestamps == Some(true) => return,
        _ => (
            format!("`{}` has no clock of its own", shown(interface)),
            "`latlab doctor` says which cards stamp packets; leave `timestamps` out for others",
        ),
    };
    let message = format!("link `{}` has hardware timestamps, and {why}", *link.name);
    errors.add(by.at, message, hint);
}

/// Refuses what something uses: it may be the way in to the machine.
fn check_free(
    link: &Link,
    interface: &Spanned<String>,
    facts: &Facts,
    errors: &mut Diagnostics,
) -> bool {
    let Some(use_) = facts.interfaces_in_use.get(&interface.value) else {
        return true;
    };
    let (name, named) = (&link.name.value, shown(interface));
    let message = format!("the host uses `{named}` of link `{name}`: {use_}");
    let hint = "a node that gets it takes it from the host; choose one that nothing uses";
    errors.add(interface.at, message, hint);
    false
}

/// Refuses an end that a VM drives itself, where the VM or the end cannot be so.
fn check_driven(lab: &Lab, link: &Link, end: &Endpoint, errors: &mut Diagnostics) {
    let kind = link.kind.value;
    let is_passthrough = kind == LinkKind::Passthrough;
    let is_function = kind == LinkKind::Sriov && link.vm() == VmAttachment::Vfio;
    let Some(node) = lab.node(&end.node) else {
        return;
    };
    if !(is_passthrough || is_function) || node.kind.is_host() {
        return;
    }
    let (name, ended) = (
        &link.name.value,
        format!("{}:{}", *end.node, *end.interface),
    );
    if !node.kind.is_guest() {
        if is_passthrough {
            let message = format!(
                "link `{name}`, of type {kind}, ends at `{ended}`: only a VM can drive a card of its own"
            );
            let hint = "use `type: phys`, which gives a node the interface of the card";
            errors.add(end.node.at, message, hint);
        }
        return;
    }
    if end.netem_at.is_some() || end.impairment.rate.is_some() {
        let message = format!(
            "end `{ended}` of link `{name}` is driven by its VM, which no delay, loss or rate of the host reaches"
        );
        let hint = match is_function {
            true => "remove them from this end, or use `vm: macvtap`",
            false => "remove them from this end, or use `type: phys`",
        };
        errors.add(end.node.at, message, hint);
    }
    check_start(node, name, errors);
}

/// The state of a card is not in memory that could be saved.
fn check_start(node: &Node, link: &str, errors: &mut Diagnostics) {
    let start = node.fields.start.as_ref();
    if let Some(start) = start.filter(|start| start.value != GuestStart::Boot) {
        let message = format!(
            "node `{}` drives a card of its own (link `{link}`), and neither clones nor snapshots have one",
            *node.name
        );
        errors.add(start.at, message, "`start: boot`");
    }
}

/// Refuses a port that no VM can be given alone.
fn check_port(link: &Link, interface: &Spanned<String>, facts: &Facts, errors: &mut Diagnostics) {
    let (name, named) = (&link.name.value, shown(interface));
    if !facts.interfaces.contains(&interface.value) {
        return;
    }
    let nic = facts.nic(interface);
    let Some(nic) = nic.filter(|nic| nic.pci.is_some()) else {
        let message = format!("`{named}` of link `{name}` is no port of a card on the PCI bus");
        errors.add(
            interface.at,
            message,
            "use `type: phys`, which any interface can have",
        );
        return;
    };
    if let Some(others) = others(nic) {
        let message = format!(
            "`{named}` of link `{name}` is in an IOMMU group with {others}, and a group is given as a whole"
        );
        let hint = "put the card into another slot, or use `type: phys`";
        errors.add(interface.at, message, hint);
    } else if nic.keeps_its_state() {
        let message = format!("`{named}` of link `{name}`: the kernel knows no way to reset it");
        errors.add(interface.at, message, RESET_HINT);
    }
}

/// The other devices of its IOMMU group.
fn others(nic: &Nic) -> Option<String> {
    (!nic.iommu_others.is_empty()).then(|| nic.iommu_others.join(", "))
}

/// Refuses a card that has fewer virtual functions than the lab wants of it.
fn check_functions(
    link: &Link,
    interface: &Spanned<String>,
    wanted: u32,
    facts: &Facts,
    errors: &mut Diagnostics,
) {
    let Some(nic) = facts.nic(interface) else {
        return;
    };
    if wanted == nic.sriov_vfs + 1 {
        let (name, named) = (&link.name.value, shown(interface));
        let message = match nic.sriov_vfs {
            0 => format!("`{named}` of link `{name}` has no virtual functions (SR-IOV)"),
            some => format!(
                "the lab wants more virtual functions of `{named}` (link `{name}`) than it has: {some}"
            ),
        };
        let hint = "use another card, or `type: macvlan` with `parent:`";
        errors.add(interface.at, message, hint);
    }
}

/// Interfaces of `host` nodes live in the root namespace, among all others.
fn check_host_names(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let hosts = lab.nodes.iter().filter(|n| n.kind.is_host());
    let hosts: HashSet<&str> = hosts.map(|n| n.name.value.as_str()).collect();
    let theirs: HashSet<&str> = facts.interfaces.iter().map(String::as_str).collect();
    let mut seen: HashMap<&str, &Endpoint> = HashMap::new();
    let ends = lab.links.iter().flat_map(|l| &l.endpoints);
    for end in ends.filter(|e| hosts.contains(e.node.as_str())) {
        let interface = end.interface.as_str();
        if theirs.contains(interface) {
            let message = format!("the host already has an interface `{interface}`");
            let free: String = format!("{}-{interface}", *lab.name)
                .chars()
                .take(15)
                .collect();
            errors.add(end.interface.at, message, format!("for example `{free}`"));
        } else if let Some(other) = seen
            .insert(interface, end)
            .filter(|o| o.node.value != *end.node)
        {
            let message = format!(
                "`{}:{interface}` and `{}:{interface}` are one interface of the host",
                *end.node, *other.node
            );
            let hint = "nodes of kind host share the host's names: rename one";
            errors.add(end.interface.at, message, hint);
        }
    }
}
