//! The limits of a node, as cgroups know them.

use latlab_model::plan::{NodePlan, Plan, Share};
use latlab_model::units::CpuList;

use crate::cgroup::{HugePages, Limits};
use crate::nodes::driver_of;

/// The limits of a node as the cgroups know them.
pub(super) fn limits(plan: &Plan, node: &NodePlan) -> Limits {
    let enforced = node.kind().properties().is_limited;
    let partition = in_partition(plan, node);
    let cpuset = node.cpuset.as_ref().map(|set| {
        // A group in the partition has CPUs of the partition only.
        if partition {
            quiet(plan, set)
        } else {
            set.clone()
        }
    });
    let mut limits = Limits {
        cpus: node.cpus.filter(|_| enforced),
        cpuset,
        partition,
        memory_nodes: node.memory_nodes.clone(),
        memory_bytes: node.memory.filter(|_| enforced).map(|m| m.0),
        huge_pages: node.dpdk_of_host().map(|dpdk| HugePages {
            page_bytes: dpdk.page.0,
            bytes: dpdk.huge_pages.0,
        }),
        ..Limits::default()
    };
    driver_of(&node.body).restrict(&mut limits);
    limits
}

/// Whether a node's cgroup belongs into the partition that the lab's tuning makes.
pub(super) fn in_partition(plan: &Plan, node: &NodePlan) -> bool {
    let partition = plan.tuning.as_ref().is_some_and(|t| t.partition);
    let place = plan.blueprint.node(&node.name);
    partition && place.is_some_and(|p| matches!(p.share, Share::Own | Share::Pool))
}

/// Those of these CPUs that belong to the lab alone.
pub(super) fn quiet(plan: &Plan, set: &CpuList) -> CpuList {
    let given = plan.blueprint.given();
    CpuList::new(set.iter().filter(|cpu| given.contains(*cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_limited_unless_the_lab_says_otherwise() {
        let text = "name: l\ntopology:\n  nodes:\n    \
             plain: {kind: container}\n    \
             free: {kind: container, security: {pids: unlimited, devices: all}}\n    \
             native: {kind: native}\n";
        let lab = latlab_model::spec::Lab::parse(text).expect("a lab");
        let facts = latlab_model::facts::Facts {
            tools: [("crun".to_string(), "1".to_string())].into(),
            ..Default::default()
        };
        let plan = latlab_model::plan::plan(&lab, &facts).expect("a plan");
        let of = |name: &str| {
            let limits = limits(&plan, plan.node(name).expect("a node"));
            (limits.pids, limits.devices)
        };
        assert_eq!(of("plain"), (Some(4096), Some(Vec::new())));
        assert_eq!(of("free"), (None, None));
        assert_eq!(of("native"), (None, None));
    }
}
