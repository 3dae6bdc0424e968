//! Which processors a node may use.
//!
//! Isolated nodes get whole processors that nothing else of any lab uses, from the highest number
//! down; processor 0 always stays with the host, whose interrupts and kernel threads live there.
//! Nodes that ask for nothing are then confined to what is left.

use std::collections::HashMap;

use super::NodePlan;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::facts::Facts;
use crate::spec::{Lab, Node, NodeKind};
use crate::units::{Bytes, CpuList};

/// Memory of a VM that asks for none: enough for a distribution's kernel and the tools of a lab.
pub(super) const VM_MEMORY: Bytes = Bytes(512 << 20);

/// What placement decided for one node.
#[derive(Debug, Default)]
pub struct Placed {
    cpuset: Option<CpuList>,
    isolate: bool,
}

impl Placed {
    /// The node's plan, without interfaces yet.
    pub fn onto(self, node: &Node) -> NodePlan {
        let fields = &node.fields;
        let text = |s: &Option<Spanned<String>>| s.as_ref().map(|s| s.value.clone());
        let is_vm = node.kind == NodeKind::Vm;
        let memory = fields
            .memory
            .as_ref()
            .map(|m| m.value)
            .or(is_vm.then_some(VM_MEMORY));
        NodePlan {
            name: node.name.value.clone(),
            kind: node.kind,
            image: text(&fields.image).unwrap_or_else(|| "host".into()),
            cpus: fields
                .cpus
                .as_ref()
                .map(|c| c.value)
                .or(is_vm.then_some(1.0)),
            cpuset: self.cpuset,
            isolate: self.isolate,
            memory,
            env: fields.env.clone(),
            binds: fields.binds.iter().map(|b| b.value.clone()).collect(),
            exec: fields.exec.iter().map(|e| e.value.clone()).collect(),
            setup: text(&fields.setup),
            run: text(&fields.run),
            teardown: text(&fields.teardown),
            runtime: fields.runtime.as_ref().map(|r| r.value).unwrap_or_default(),
            kernel: text(&fields.kernel).unwrap_or_else(|| "standard".into()),
            boot: fields.boot.iter().map(|b| b.value.clone()).collect(),
            acceleration: fields
                .acceleration
                .as_ref()
                .map(|a| a.value)
                .unwrap_or_default(),
            interfaces: Vec::new(),
        }
    }
}

/// Chooses processors for every node, in the order of the lab.
pub fn place(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) -> Vec<Placed> {
    let mut free: Vec<u32> = facts
        .cpus
        .iter()
        .filter(|c| *c != 0 && !facts.cpus_taken.contains(c))
        .collect();
    // Explicit sets first, so that a free choice never takes a processor that some node names.
    for node in &lab.nodes {
        if let Some(set) = &node.fields.cpuset {
            free.retain(|c| !set.contains(*c));
        }
    }
    let mut exclusive: HashMap<u32, String> = HashMap::new();
    let mut placed = Vec::new();
    for node in &lab.nodes {
        placed.push(place_one(node, facts, &mut free, &mut exclusive, errors));
    }
    for (node, placed) in lab.nodes.iter().zip(&mut placed) {
        if !placed.isolate && node.kind != NodeKind::Host {
            keep_out(node, placed, facts, &exclusive, errors);
        }
    }
    placed
}

/// Keeps a node off the processors that belong to others alone.
fn keep_out(
    node: &Node,
    placed: &mut Placed,
    facts: &Facts,
    exclusive: &HashMap<u32, String>,
    errors: &mut Diagnostics,
) {
    let Some(set) = &node.fields.cpuset else {
        let taken = |c: &u32| exclusive.contains_key(c) || facts.cpus_taken.contains(c);
        if facts.cpus.iter().any(|c| taken(&c)) && facts.lacks(Facts::CGROUP_CPUSET).is_none() {
            let rest = facts.cpus.iter().filter(|c| !taken(c)).collect();
            placed.cpuset = Some(CpuList::new(rest));
        }
        return;
    };
    let mut cpus = facts.cpus.iter().filter(|c| set.contains(*c));
    if let Some((cpu, owner)) = cpus.find_map(|c| Some((c, exclusive.get(&c)?))) {
        let name = &node.name.value;
        let message = format!("CPU {cpu} of node `{name}` belongs to {owner} alone");
        errors.add(
            set.at,
            message,
            "name other processors, or drop the other node's `isolate`",
        );
    }
}

fn isolated(node: &Node) -> bool {
    node.fields.isolate.as_ref().is_some_and(|i| i.value)
}

fn place_one(
    node: &Node,
    facts: &Facts,
    free: &mut Vec<u32>,
    exclusive: &mut HashMap<u32, String>,
    errors: &mut Diagnostics,
) -> Placed {
    let name = &node.name.value;
    let isolate = isolated(node);
    if let Some(set) = &node.fields.cpuset {
        if let Some(missing) = set.iter().find(|c| !facts.cpus.contains(*c)) {
            let message = format!(
                "node `{name}` wants CPU {missing}; this machine has {}",
                facts.cpus
            );
            errors.add(set.at, message, "name processors that the machine has");
        } else if isolate {
            claim(node, set, facts, exclusive, errors);
        }
        return Placed {
            cpuset: Some(set.value.clone()),
            isolate,
        };
    }
    if !isolate {
        return Placed::default();
    }
    let wanted = node
        .fields
        .cpus
        .as_ref()
        .map_or(1, |c| c.value.ceil() as usize);
    if wanted > free.len() {
        let at = node.fields.isolate.as_ref().map_or(node.name.at, |i| i.at);
        let message = format!(
            "node `{name}` wants {wanted} exclusive core(s); {} of this machine's {} can still be given",
            free.len(),
            facts.cpus.len()
        );
        let hint = "lower `cpus`, or drop `isolate`; core 0 stays with the host";
        errors.add(at, message, hint);
        return Placed::default();
    }
    let cpus = free.split_off(free.len() - wanted);
    exclusive.extend(cpus.iter().map(|c| (*c, format!("node `{name}`"))));
    Placed {
        cpuset: Some(CpuList::new(cpus)),
        isolate: true,
    }
}

/// Gives the processors that `node` names to it alone.
fn claim(
    node: &Node,
    set: &Spanned<CpuList>,
    facts: &Facts,
    exclusive: &mut HashMap<u32, String>,
    errors: &mut Diagnostics,
) {
    let name = &node.name.value;
    for cpu in set.iter() {
        let owner = match exclusive.get(&cpu) {
            _ if cpu == 0 => "always belongs to the host".into(),
            Some(other) => format!("already belongs to {other}"),
            None if facts.cpus_taken.contains(&cpu) => "already belongs to another lab".into(),
            None => {
                exclusive.insert(cpu, format!("node `{name}`"));
                continue;
            }
        };
        let message = format!("CPU {cpu} of node `{name}` {owner}");
        let hint = "with `isolate`, a processor belongs to one node: name another in `cpuset`";
        errors.add(set.at, message, hint);
    }
}
