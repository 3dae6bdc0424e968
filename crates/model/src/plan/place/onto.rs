//! A node's plan, with its place.

use super::super::blueprint::{Blueprint, NodePlace, Share};
use super::super::{GuestMemory, NodePlan};
use super::asks::Profiles;
use crate::boot;
use crate::diagnostic::Spanned;
use crate::facts::Facts;
use crate::profile::Profile;
use crate::spec::{Lab, Node, NodeKind};
use crate::units::Bytes;

/// Memory of a VM that asks for none: enough for a distribution's kernel and the tools of a lab.
pub(in crate::plan) const VM_MEMORY: Bytes = Bytes(512 << 20);

/// The plans of a lab's nodes, without interfaces yet.
pub(in crate::plan) fn node_plans(
    lab: &Lab,
    blueprint: &Blueprint,
    facts: &Facts,
    profiles: Profiles<'_>,
) -> Vec<NodePlan> {
    let one = |node: &Node| {
        let place = blueprint.node(&node.name);
        let confined = place.filter(|p| match p.share {
            // Nothing to keep out of when the host shares everything, and nothing to do it with
            // where there are no cpusets.
            Share::Host => {
                blueprint.housekeeping.cpus != facts.cpus
                    && node.kind != NodeKind::Host
                    && facts.lacks(Facts::CGROUP_CPUSET).is_none()
            }
            Share::Own | Share::Pool | Share::Named => true,
        });
        let profile = lab
            .tuning_of(node)
            .and_then(|t| Profile::named(t, profiles));
        plan(lab, node, confined, profile.as_ref())
    };
    lab.nodes.iter().map(one).collect()
}

fn plan(lab: &Lab, node: &Node, place: Option<&NodePlace>, profile: Option<&Profile>) -> NodePlan {
    let fields = &node.fields;
    let text = |s: &Option<Spanned<String>>| s.as_ref().map(|s| s.value.clone());
    let is_vm = node.kind == NodeKind::Vm;
    let memory = fields.memory.map(|m| m.value);
    let cpus = fields.cpus.map(|c| c.value).or(is_vm.then_some(1.0));
    let vcpus = cpus.map_or(1, |c| c as u32);
    // The node's own come last, so that they win.
    let of_profile = profile.filter(|_| is_vm);
    let mut boot = of_profile.map_or_else(Vec::new, |p| boot::of_guest(p, vcpus));
    boot.extend(fields.boot.iter().map(|b| b.value.clone()));
    NodePlan {
        name: node.name.value.clone(),
        kind: node.kind,
        image: text(&fields.image).unwrap_or_else(|| "host".into()),
        cpus,
        cpuset: place.map(NodePlace::cpuset),
        isolate: fields.isolate.is_some_and(|i| i.value),
        memory_nodes: place.and_then(|p| Some(p.memory.as_ref()?.nodes.clone())),
        tuning: lab.tuning_of(node).map(|t| t.value.clone()),
        memory: memory.or(is_vm.then_some(VM_MEMORY)),
        env: fields.env.clone(),
        binds: fields.binds.iter().map(|b| b.value.clone()).collect(),
        exec: fields.exec.iter().map(|e| e.value.clone()).collect(),
        setup: text(&fields.setup),
        run: text(&fields.run),
        teardown: text(&fields.teardown),
        runtime: fields.runtime.map(|r| r.value).unwrap_or_default(),
        kernel: text(&fields.kernel).unwrap_or_else(|| "standard".into()),
        boot,
        guest_memory: of_profile.map(GuestMemory::of).unwrap_or_default(),
        acceleration: fields.acceleration.map(|a| a.value).unwrap_or_default(),
        interfaces: Vec::new(),
    }
}
