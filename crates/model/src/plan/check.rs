//! What the machine must offer before a lab is made on it.

use crate::diagnostic::{Diagnostics, Mark};
use crate::facts::Facts;
use crate::spec::{Acceleration, Lab, LinkKind, Node, NodeKind, Runtime};
use crate::units::Bytes;

/// Below this a distribution's kernel does not reach user space.
const VM_MIN_MEMORY: Bytes = Bytes(96 << 20);

/// Notes everything that `lab` needs and the machine lacks.
pub fn check(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    for node in &lab.nodes {
        check_node(node, facts, errors);
    }
    for link in &lab.links {
        let at = link.kind.at;
        if link.kind.value == LinkKind::Nat {
            need_tool(
                "nft",
                &format!("link `{}` masquerades", *link.name),
                at,
                facts,
                errors,
            );
        }
        if let Some(parent) = link
            .parent
            .as_ref()
            .filter(|p| !facts.interfaces.contains(&p.value))
        {
            let message = format!(
                "parent `{}` of link `{}` is not an interface here",
                **parent, *link.name
            );
            let hint = match facts.interfaces.is_empty() {
                true => "remove `parent:`; latlab then makes one".to_string(),
                false => format!("one of: {}", facts.interfaces.join(", ")),
            };
            errors.add(parent.at, message, hint);
        }
        for end in link.endpoints.iter().filter(|e| e.impairment.needs_netem()) {
            if let Some(lack) = facts.lacks(Facts::NETEM) {
                let message = format!(
                    "link `{}` has delay, jitter or loss: {}",
                    *link.name, lack.reason
                );
                let hint = lack.remedy.clone().unwrap_or_else(|| {
                    "run it on a kernel with netem (sch_netem), or remove delay, jitter and loss".into()
                });
                errors.add(end.node.at, message, hint);
            }
        }
    }
    check_host_names(lab, facts, errors);
}

fn check_node(node: &Node, facts: &Facts, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let limits = [
        (
            fields.cpus.as_ref().map(|c| c.at),
            "cpus",
            Facts::CGROUP_CPU,
        ),
        (
            fields.memory.as_ref().map(|m| m.at),
            "memory",
            Facts::CGROUP_MEMORY,
        ),
        (
            fields.cpuset.as_ref().map(|c| c.at),
            "cpuset",
            Facts::CGROUP_CPUSET,
        ),
    ];
    match node.kind {
        NodeKind::Native | NodeKind::Container => {
            for (at, key, capability) in limits {
                let (Some(at), Some(lack)) = (at, facts.lacks(capability)) else {
                    continue;
                };
                let message = format!(
                    "`{key}` of node `{name}` cannot be enforced: {}",
                    lack.reason
                );
                let hint = lack
                    .remedy
                    .clone()
                    .unwrap_or_else(|| format!("remove `{key}`"));
                errors.add(at, message, hint);
            }
        }
        NodeKind::Vm => check_vm(node, facts, errors),
        NodeKind::Host => {
            for (at, key, _) in limits {
                if let Some(at) = at {
                    let message =
                        format!("`{key}` of node `{name}`: the host itself is not limited");
                    errors.add(at, message, format!("remove `{key}`, or use kind native"));
                }
            }
        }
    }
    if node.kind == NodeKind::Container {
        let runtime = fields.runtime.as_ref().map(|r| r.value).unwrap_or_default();
        let tool = match runtime {
            Runtime::Crun => "crun",
            Runtime::Runc => "runc",
        };
        need_tool(
            tool,
            &format!("node `{name}` is a container"),
            node.name.at,
            facts,
            errors,
        );
    }
    let image = fields.image.as_ref().filter(|i| i.value != "host");
    if let Some(image) = image.filter(|_| matches!(node.kind, NodeKind::Native | NodeKind::Host)) {
        let message = format!(
            "node `{name}` is {}; it always sees the host's own files",
            node.kind
        );
        errors.add(
            image.at,
            message,
            "remove `image:`, or use kind container or vm",
        );
    }
}

fn check_vm(node: &Node, facts: &Facts, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    need_tool(
        "qemu-system-x86_64",
        &format!("node `{name}` is a vm"),
        node.name.at,
        facts,
        errors,
    );
    if let Some(cpus) = fields
        .cpus
        .as_ref()
        .filter(|c| c.value.fract() != 0.0 || c.value > 255.0)
    {
        let message = format!(
            "`cpus` of node `{name}` is {}; a vm has whole virtual CPUs",
            cpus.value
        );
        errors.add(cpus.at, message, "for example `cpus: 2`");
    }
    if let Some(memory) = fields.memory.as_ref().filter(|m| m.value < VM_MIN_MEMORY) {
        let message = format!(
            "`memory` of node `{name}` is {}; a kernel does not boot in it",
            memory.value
        );
        errors.add(
            memory.at,
            message,
            format!("at least {VM_MIN_MEMORY}; 256MiB is comfortable"),
        );
    }
    let wants_kvm = fields
        .acceleration
        .as_ref()
        .filter(|a| a.value == Acceleration::Kvm);
    if let (Some(wish), Some(lack)) = (wants_kvm, facts.lacks(Facts::KVM)) {
        let message = format!("node `{name}` insists on KVM: {}", lack.reason);
        errors.add(
            wish.at,
            message,
            "`acceleration: auto` falls back to software emulation and says so",
        );
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

fn need_tool(tool: &str, why: &str, at: Mark, facts: &Facts, errors: &mut Diagnostics) {
    if facts.lacks_tool(tool) {
        let message = format!("{why}, but `{tool}` is not installed");
        errors.add(at, message, format!("apt-get install {}", package(tool)));
    }
}

/// Interfaces of `host` nodes live in the root namespace, among everybody's.
fn check_host_names(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let is_host = |name: &str| {
        lab.nodes
            .iter()
            .any(|n| n.name.value == name && n.kind == NodeKind::Host)
    };
    let mut seen: Vec<&str> = Vec::new();
    for end in lab
        .links
        .iter()
        .flat_map(|l| &l.endpoints)
        .filter(|e| is_host(&e.node))
    {
        if facts.interfaces.contains(&end.interface.value) {
            let message = format!("the host already has an interface `{}`", *end.interface);
            errors.add(
                end.interface.at,
                message,
                format!("for example `{}-{}`", *lab.name, *end.interface),
            );
        } else if seen.contains(&end.interface.as_str()) {
            let message = format!("two host nodes name the interface `{}`", *end.interface);
            errors.add(
                end.interface.at,
                message,
                "they share one namespace: rename one",
            );
        }
        seen.push(&end.interface);
    }
}
