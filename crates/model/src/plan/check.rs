//! Requirements of a lab on the machine, checked before it is made.

use std::collections::BTreeSet;

use super::interfaces;
use super::lacks::Lacks;
use super::node::{self, EMPTY_IMAGE, GuestMemory, HOST_IMAGE, Tuned, VM_MEMORY};
use super::place::Profiles;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::facts::Facts;
use crate::profile::Profile;
use crate::spec::{Lab, Node, NodeImage};
use crate::units::Bytes;

/// Notes everything that `lab` needs and the machine lacks.
pub fn check(lab: &Lab, facts: &Facts, profiles: Profiles<'_>, errors: &mut Diagnostics) {
    if let Some(host) = lab.hosts.first() {
        let message = "a lab on several hosts is planned part by part, and not here";
        let hint = "`latlab deploy` and `latlab run` ask its hosts; elsewhere remove `hosts`";
        errors.add(host.name.at, message, hint);
    }
    let mut lacks = Lacks::of(facts);
    let reserves_pages = reserves_pages(lab, profiles);
    for node in &lab.nodes {
        check_node(node, errors);
        let followed = lab.tuning_of(node).filter(|_| node.kind.is_guest());
        let profile = followed.and_then(|name| Profile::named(name, profiles));
        let tuned = Tuned {
            profile: profile.as_ref(),
            reserves_pages,
        };
        node::check(node, &tuned, &mut lacks, errors);
        for need in lab.needs_of_node(node) {
            lacks.capability(&need, errors);
        }
    }
    check_vm_memory(lab, facts, errors);
    node::check_space(lab, facts, errors);
    node::check_dpdk(lab, facts, errors);
    for link in &lab.links {
        let kind = &link.kind;
        let why = format!("link `{}` is of type {}", *link.name, kind.value);
        for program in kind.value.programs() {
            lacks.program(program, &why, kind.at, errors);
        }
        for need in lab.needs_of_link(link) {
            lacks.capability(&need, errors);
        }
    }
    interfaces::check(lab, facts, errors);
}

/// Fields of a node for which its kind has no use.
fn check_node(node: &Node, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    if node.kind.is_host() {
        let isolate = fields.isolate.filter(|isolate| isolate.value);
        let limits = [
            (fields.cpus.map(|c| c.at), "cpus"),
            (fields.memory.map(|m| m.at), "memory"),
            (isolate.map(|i| i.at), "isolate"),
            (fields.cpuset.as_ref().map(|c| c.at), "cpuset"),
        ];
        for (at, key) in limits {
            let Some(at) = at else { continue };
            let message = format!("`{key}` of node `{name}`: the host itself is not limited");
            errors.add(at, message, format!("remove `{key}`, or use kind native"));
        }
        if let Some(tuning) = &fields.tuning {
            let message = format!("`tuning` of node `{name}`: the host itself is no lab's node");
            let hint = "write `tuning:` above `topology:` to quiet the machine for the lab";
            errors.add(tuning.at, message, hint);
        }
    }
    let image = fields.image.as_ref().filter(|i| !i.is(HOST_IMAGE));
    if let Some(image) = image.filter(|_| !node.kind.properties().has_image) {
        let message = format!(
            "node `{name}` is {}; it always sees the host's own files",
            node.kind
        );
        let hint = "remove `image:`, or use kind container or vm";
        errors.add(image.at, message, hint);
    }
    check_empty(node, errors);
}

/// Whether a profile that turns the machine's knobs while the lab is up reserves huge pages.
fn reserves_pages(lab: &Lab, profiles: Profiles<'_>) -> bool {
    let of_nodes = lab.nodes.iter().filter_map(|node| lab.tuning_of(node));
    let names: BTreeSet<&str> = lab
        .tuning
        .iter()
        .chain(of_nodes)
        .map(|name| name.as_str())
        .collect();
    let reserves = |profile: Profile| GuestMemory::of(&profile).huge;
    names
        .into_iter()
        .any(|name| Profile::named(name, profiles).is_some_and(reserves))
}

/// Scripts and commands of a node whose image has no shell.
fn check_empty(node: &Node, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let is_empty = |image: &Spanned<NodeImage>| image.is(EMPTY_IMAGE);
    if !fields.image.as_ref().is_some_and(is_empty) {
        return;
    }
    let written = [
        (fields.exec.first().map(|c| c.at), "exec"),
        (fields.setup.as_ref().map(|s| s.at), "setup"),
        (fields.run.as_ref().map(|s| s.at), "run"),
        (fields.teardown.as_ref().map(|s| s.at), "teardown"),
    ];
    for (at, key) in written {
        if let Some(at) = at {
            let message = format!("`{key}` of node `{name}` needs a shell, and its image is empty");
            errors.add(at, message, "use another `image:`");
        }
    }
}

/// Virtual machines that together want more memory than there is: each would start, and the host
/// would kill one of them in the middle of a measurement.
fn check_vm_memory(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let there = facts.brief.memory_bytes;
    let mut wanted = 0u64;
    for node in lab.nodes.iter().filter(|n| n.kind.is_guest()) {
        let memory = node.fields.memory;
        let before = wanted;
        wanted = wanted.saturating_add(memory.map_or(VM_MEMORY, |m| m.value).0);
        if there > 0 && before <= there && wanted > there {
            let message = format!(
                "the memory of the vms up to node `{}` is {}; this machine has {}",
                *node.name,
                Bytes(wanted),
                Bytes(there)
            );
            let at = memory.map_or(node.name.at, |m| m.at);
            errors.add(at, message, "lower `memory`, or use fewer vms");
        }
    }
}
