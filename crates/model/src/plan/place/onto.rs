//! A node's plan, with its place.

use super::super::blueprint::{Blueprint, NodePlace, Share};
use super::super::node::{
    DpdkPlan, GuestTopology, NodeBody, NodePlan, StoragePlan, VM_MEMORY, Wanted,
};
use super::asks::Profiles;
use super::topology::Topology;
use crate::diagnostic::Spanned;
use crate::facts::Facts;
use crate::profile::Profile;
use crate::spec::{Lab, Node};

/// The plans of a lab's nodes, without interfaces yet.
pub(in crate::plan) fn node_plans(
    lab: &Lab,
    blueprint: &Blueprint,
    facts: &Facts,
    profiles: Profiles<'_>,
) -> Vec<NodePlan> {
    let topology = Topology::of(facts);
    let one = |node: &Node| {
        let place = blueprint.node(&node.name);
        let confined = place.filter(|p| match p.share {
            // Nothing to keep out of when the host shares everything, and nothing to do it with
            // where there are no cpusets.
            Share::Host => {
                blueprint.housekeeping.cpus != facts.cpus
                    && !node.kind.is_host()
                    && facts.lacks(Facts::CGROUP_CPUSET).is_none()
            }
            Share::Own | Share::Pool | Share::Named => true,
        });
        let profile = lab
            .tuning_of(node)
            .and_then(|t| Profile::named(t, profiles));
        let mut plan = plan(lab, node, confined);
        plan.body = NodeBody::of(&Wanted {
            node,
            profile: profile.as_ref(),
            vcpus: plan.vcpus(),
            topology: place.and_then(|p| guest_topology(&p.vcpus, &topology)),
            facts,
        });
        plan
    };
    lab.nodes.iter().map(one).collect()
}

/// The topology of virtual CPUs that have these of the host, in their order. A guest's topology is
/// even, so what is not stays untold: the guest then believes in fewer ties than there are.
fn guest_topology(vcpus: &[u32], topology: &Topology) -> Option<GuestTopology> {
    let cores: Vec<usize> = vcpus
        .iter()
        .map(|cpu| topology.core(*cpu))
        .collect::<Option<_>>()?;
    if cores.len() < 2 {
        return None;
    }
    let of = |core: &usize| &topology.cores[*core];
    let threads = even_runs(cores.iter()).map_or(1, |runs| cores.len() / runs);
    let sockets = even_runs(cores.iter().map(|c| of(c).node)).unwrap_or(1);
    let caches = even_runs(cores.iter().map(|c| (of(c).node, of(c).cache))).unwrap_or(1);
    let dies = if caches % sockets == 0 {
        caches / sockets
    } else {
        1
    };
    let count = |n: usize| n as u32;
    Some(GuestTopology {
        sockets: count(sockets),
        dies: count(dies),
        cores: count(cores.len() / threads / (sockets * dies)),
        threads: count(threads),
    })
    .filter(|t| t.sockets * t.dies * t.cores * t.threads == count(cores.len()))
}

/// How many runs of equal neighbours there are, if all are equally long and none comes back.
fn even_runs<T: PartialEq>(all: impl Iterator<Item = T>) -> Option<usize> {
    let mut runs: Vec<(T, usize)> = Vec::new();
    for one in all {
        let known = runs.iter().position(|(known, _)| *known == one);
        match known {
            None => runs.push((one, 1)),
            Some(at) if at + 1 == runs.len() => runs[at].1 += 1,
            Some(_) => return None,
        }
    }
    let first = runs.first()?.1;
    runs.iter()
        .all(|(_, count)| *count == first)
        .then_some(runs.len())
}

/// The part of a plan that all nodes have.
fn plan(lab: &Lab, node: &Node, place: Option<&NodePlace>) -> NodePlan {
    let fields = &node.fields;
    let text = |s: &Option<Spanned<String>>| s.as_ref().map(|s| s.value.clone());
    let is_guest = node.kind.is_guest();
    let memory = fields.memory.map(|m| m.value);
    NodePlan {
        name: node.name.value.clone(),
        cpus: fields.cpus.map(|c| c.value).or(is_guest.then_some(1.0)),
        cpuset: place.map(NodePlace::cpuset),
        isolate: fields.isolate.is_some_and(|i| i.value),
        memory_nodes: place.and_then(|p| Some(p.memory.as_ref()?.nodes.clone())),
        tuning: lab.tuning_of(node).map(|t| t.value.clone()),
        memory: memory.or(is_guest.then_some(VM_MEMORY)),
        env: fields.env.clone(),
        exec: fields.exec.iter().map(|e| e.value.clone()).collect(),
        setup: text(&fields.setup),
        run: text(&fields.run),
        teardown: text(&fields.teardown),
        storage: StoragePlan::all(node),
        dpdk: DpdkPlan::of(lab, node),
        body: NodeBody::Native,
        interfaces: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Cache, NumaNode};
    use crate::units::CpuList;

    /// Two memory nodes with two caches each; two cores of two threads below every cache. Threads of a
    /// core are eight apart.
    fn machine() -> Topology {
        let list = |text: &str| CpuList::parse(text).expect("a list");
        let mut facts = Facts {
            cpus: list("0-15"),
            ..Facts::default()
        };
        let processors = &mut facts.machine.processors;
        processors.siblings = (0..8).map(|c| CpuList::new(vec![c, c + 8])).collect();
        processors.numa = [(0, "0-3,8-11"), (1, "4-7,12-15")]
            .map(|(id, cpus)| NumaNode {
                id,
                cpus: Some(list(cpus)),
                memory_bytes: 1 << 30,
                distances: Vec::new(),
            })
            .into();
        processors.caches.push(Cache {
            level: 3,
            kind: "unified".into(),
            size_bytes: 1 << 24,
            shared_by: 4,
            groups: ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
                .map(list)
                .into(),
        });
        Topology::of(&facts)
    }

    fn told(vcpus: &[u32]) -> Option<[u32; 4]> {
        let told = guest_topology(vcpus, &machine())?;
        Some([told.sockets, told.dies, told.cores, told.threads])
    }

    #[test]
    fn a_guest_sees_shared_cores_caches_and_memory_nodes() {
        assert_eq!(told(&[1]), None);
        assert_eq!(told(&[0, 8]), Some([1, 1, 1, 2]));
        assert_eq!(told(&[0, 1]), Some([1, 1, 2, 1]));
        assert_eq!(told(&[0, 8, 1, 9]), Some([1, 1, 2, 2]));
        assert_eq!(told(&[0, 1, 2, 3]), Some([1, 2, 2, 1]));
        assert_eq!(told(&[0, 8, 1, 9, 4, 12, 5, 13]), Some([2, 1, 2, 2]));
        assert_eq!(told(&[0, 1, 2, 3, 4, 5, 6, 7]), Some([2, 2, 2, 1]));
    }

    #[test]
    fn uneven_topologies_stay_unnamed() {
        assert_eq!(
            told(&[0, 1, 2]),
            Some([1, 1, 3, 1]),
            "caches of two and of one"
        );
        assert_eq!(
            told(&[0, 8, 1]),
            Some([1, 1, 3, 1]),
            "a core of two and one of one"
        );
        assert_eq!(
            told(&[0, 1, 8, 9]),
            Some([1, 1, 4, 1]),
            "threads that are not neighbours"
        );
    }
}
