//! Requirements of a lab on the machine, checked before it is made.

use std::collections::{HashMap, HashSet};

use super::place::VM_MEMORY;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::facts::Facts;
use crate::spec::{Acceleration, Cable, Endpoint, Lab, Link, LinkKind, Node, NodeKind, Runtime};
use crate::units::Bytes;

/// Below this a distribution's kernel does not reach user space.
const VM_MIN_MEMORY: Bytes = Bytes(96 << 20);

/// Notes everything that `lab` needs and the machine lacks.
pub fn check(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let mut needs = Needs {
        facts,
        vms: names_of(lab, NodeKind::Vm),
        told: HashSet::new(),
    };
    for node in &lab.nodes {
        check_node(node, &mut needs, errors);
    }
    check_vm_memory(lab, facts, errors);
    for link in &lab.links {
        check_link(link, &mut needs, errors);
    }
    check_host_names(lab, facts, errors);
}

fn names_of(lab: &Lab, kind: NodeKind) -> HashSet<&str> {
    let of_kind = lab.nodes.iter().filter(|n| n.kind == kind);
    of_kind.map(|n| n.name.value.as_str()).collect()
}

/// Capabilities that the lab needs of the machine. One that is missing is told once, at the first place that needs it:
/// a hundred containers without a runtime are one mistake.
struct Needs<'a> {
    facts: &'a Facts,
    /// Names of the nodes that are virtual machines.
    vms: HashSet<&'a str>,
    told: HashSet<String>,
}

impl Needs<'_> {
    fn tool(&mut self, tool: &str, why: &str, at: Mark, errors: &mut Diagnostics) {
        if self.facts.lacks_tool(tool) && self.told.insert(tool.to_string()) {
            let message = format!("{why}, but `{tool}` is not installed");
            errors.add(at, message, format!("apt-get install {}", package(tool)));
        }
    }

    /// `otherwise` is what to do when the machine's own facts know no remedy.
    fn capability(
        &mut self,
        name: &str,
        why: &str,
        otherwise: &str,
        at: Mark,
        errors: &mut Diagnostics,
    ) {
        let Some(lack) = self.facts.lacks(name) else {
            return;
        };
        if self.told.insert(name.to_string()) {
            let hint = lack.remedy.as_deref().unwrap_or(otherwise);
            errors.add(at, format!("{why}: {}", lack.reason), hint);
        }
    }
}

fn check_link(link: &Link, needs: &mut Needs<'_>, errors: &mut Diagnostics) {
    let (name, kind) = (&link.name.value, link.kind.value);
    let why = format!("link `{name}` is of type {kind}");
    if kind == LinkKind::Nat {
        needs.tool("nft", &why, link.kind.at, errors);
    }
    for capability in link.capabilities() {
        let otherwise = "use another `type`, or a kernel that has it";
        needs.capability(capability, &why, otherwise, link.kind.at, errors);
    }
    if let Some(cable) = link.cable.filter(|c| c.value == Cable::Netkit) {
        let why = format!("link `{name}` has netkit cables");
        let otherwise = "use `cable: veth`, or Linux 6.7 or later with CONFIG_NETKIT";
        needs.capability(Facts::NETKIT, &why, otherwise, cable.at, errors);
    }
    if kind == LinkKind::Macvlan {
        if let Some(end) = link
            .endpoints
            .iter()
            .find(|e| needs.vms.contains(e.node.as_str()))
        {
            let why = format!("link `{name}` joins a vm to a macvlan");
            let otherwise = "use another `type`, or another kind of node";
            needs.capability(Facts::MACVTAP, &why, otherwise, end.node.at, errors);
        }
    }
    check_parent(link, needs.facts, errors);
    for end in &link.endpoints {
        if let Some(at) = end.netem_at {
            let why = format!("link `{name}` has delay, jitter or loss");
            let otherwise =
                "run it on a kernel with netem (sch_netem), or remove delay, jitter and loss";
            needs.capability(Facts::NETEM, &why, otherwise, at, errors);
        }
        if end.impairment.rate.is_some() {
            let why = format!("link `{name}` has a rate");
            let otherwise = "run it on a kernel with tbf (sch_tbf), or remove `rate`";
            needs.capability(Facts::TBF, &why, otherwise, end.node.at, errors);
        }
    }
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

fn check_node(node: &Node, needs: &mut Needs<'_>, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let limits = [
        (fields.cpus.map(|c| c.at), "cpus", Facts::CGROUP_CPU),
        (fields.memory.map(|m| m.at), "memory", Facts::CGROUP_MEMORY),
        (
            fields.isolate.filter(|i| i.value).map(|i| i.at),
            "isolate",
            Facts::CGROUP_CPUSET,
        ),
        (
            fields.cpuset.as_ref().map(|c| c.at),
            "cpuset",
            Facts::CGROUP_CPUSET,
        ),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(at, key, c)| Some((at?, key, c)));
    match node.kind {
        NodeKind::Native | NodeKind::Container => {
            for (at, key, capability) in limits {
                let why = format!("`{key}` of node `{name}` cannot be enforced");
                needs.capability(capability, &why, &format!("remove `{key}`"), at, errors);
            }
        }
        NodeKind::Vm => check_vm(node, needs, errors),
        NodeKind::Host => {
            for (at, key, _) in limits {
                let message = format!("`{key}` of node `{name}`: the host itself is not limited");
                errors.add(at, message, format!("remove `{key}`, or use kind native"));
            }
            if let Some(tuning) = &fields.tuning {
                let message =
                    format!("`tuning` of node `{name}`: the host itself is no lab's node");
                let hint = "write `tuning:` above `topology:` to quiet the machine for the lab";
                errors.add(tuning.at, message, hint);
            }
        }
    }
    if node.kind == NodeKind::Container {
        check_container(node, needs, errors);
    }
    if node.kind != NodeKind::Host {
        let why = format!("node `{name}` is a {}", node.kind);
        let otherwise = "latlab needs a kernel with namespaces, and the right to make them";
        needs.capability(Facts::NAMESPACES, &why, otherwise, node.name.at, errors);
    }
    let image = fields.image.as_ref().filter(|i| i.value != "host");
    if let Some(image) = image.filter(|_| matches!(node.kind, NodeKind::Native | NodeKind::Host)) {
        let message = format!(
            "node `{name}` is {}; it always sees the host's own files",
            node.kind
        );
        let hint = "remove `image:`, or use kind container or vm";
        errors.add(image.at, message, hint);
    }
}

fn check_container(node: &Node, needs: &mut Needs<'_>, errors: &mut Diagnostics) {
    let (name, at, runtime) = (&node.name.value, node.name.at, node.fields.runtime);
    let (tool, other) = match runtime.map(|r| r.value).unwrap_or_default() {
        Runtime::Crun => ("crun", "runc"),
        Runtime::Runc => ("runc", "crun"),
    };
    let why = format!("node `{name}` is a container");
    // With the other runtime at hand, naming it is the shorter way.
    if needs.facts.lacks_tool(tool) && !needs.facts.lacks_tool(other) {
        if needs.told.insert(tool.into()) {
            let at = runtime.map_or(at, |r| r.at);
            let message = format!("node `{name}` wants `{tool}`, which is not installed");
            let hint = format!("apt-get install {tool}, or `runtime: {other}`");
            errors.add(at, message, hint);
        }
    } else {
        needs.tool(tool, &why, at, errors);
    }
    needs.capability(Facts::OVERLAYFS, &why, "use kind native", at, errors);
}

fn check_vm(node: &Node, needs: &mut Needs<'_>, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let why = format!("node `{name}` is a vm");
    needs.tool("qemu-system-x86_64", &why, node.name.at, errors);
    let otherwise = "use kind native or container";
    needs.capability(Facts::TAP, &why, otherwise, node.name.at, errors);
    let whole = |c: &f64| c.fract() == 0.0 && (1.0..=255.0).contains(c);
    if let Some(cpus) = fields.cpus.filter(|c| !whole(&c.value)) {
        let message = format!("`cpus` of node `{name}` is {}", cpus.value);
        let hint = "a vm has whole virtual CPUs, 1 to 255, for example `cpus: 2`";
        errors.add(cpus.at, message, hint);
    }
    if let Some(memory) = fields.memory.filter(|m| m.value < VM_MIN_MEMORY) {
        let message = format!(
            "`memory` of node `{name}` is {}; a kernel does not boot in it",
            memory.value
        );
        let hint = format!("at least {VM_MIN_MEMORY}; 256MiB is comfortable");
        errors.add(memory.at, message, hint);
    }
    let kvm = |a: &Spanned<Acceleration>| a.value == Acceleration::Kvm;
    if let Some(wish) = fields.acceleration.filter(kvm) {
        let why = format!("node `{name}` insists on KVM");
        let otherwise = "`acceleration: auto` falls back to software emulation and says so";
        needs.capability(Facts::KVM, &why, otherwise, wish.at, errors);
    }
}

/// Virtual machines that together want more memory than there is: each would start, and the host
/// would kill one of them in the middle of a measurement.
fn check_vm_memory(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let there = facts.brief.memory_bytes;
    let mut wanted = 0u64;
    for node in lab.nodes.iter().filter(|n| n.kind == NodeKind::Vm) {
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

/// Debian's package for each tool that a lab may need.
fn package(tool: &str) -> &str {
    match tool {
        "nft" => "nftables",
        "qemu-system-x86_64" => "qemu-system-x86",
        other => other,
    }
}

/// Interfaces of `host` nodes live in the root namespace, among all others.
fn check_host_names(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let hosts = names_of(lab, NodeKind::Host);
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
