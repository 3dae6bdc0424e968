//! `workqueues`: which processors the work queues that are bound to none use. Work that is queued for
//! one processor is done there whatever this says.

use super::prelude::*;

/// For all of them, and for those that have a file of their own.
const PATTERNS: [&str; 2] = [
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
];

/// See the module.
pub const KNOB: Knob = Knob {
    name: "workqueues",
    about: "Processors of work queues that are bound to none",
    evidence: "Documentation/core-api/workqueue.rst, Affinity Scopes; \
               Documentation/admin-guide/kernel-per-CPU-kthreads.rst, kworker",
    risk: "writeback and other deferred work share the housekeeping processors",
    items: |m| {
        let found = PATTERNS.iter().flat_map(|p| m.root.glob(p));
        let items: Vec<Item> = found.map(|p| Item::file(p, Form::Mask)).collect();
        match items.is_empty() {
            false => Ok(items),
            true => Err(format!(
                "no {}: this kernel does not show its work queues",
                PATTERNS[0]
            )),
        }
    },
    value: Value::Same(at_least_one_cpu),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_mask_and_each_own_are_wanted() {
        let tree = Tree::new(&[
            (PATTERNS[0], "f\n"),
            ("/sys/devices/virtual/workqueue/writeback/cpumask", "f\n"),
        ]);
        let plan = tree.plan("workqueues", "housekeeping");
        assert_eq!(plan.len(), 2);
        assert!(
            plan.iter()
                .all(|(_, from, to)| from == "0-3" && to == "0-1")
        );
        Tree::lacks(
            "workqueues",
            "housekeeping",
            "no /sys/devices/virtual/workqueue",
        );
    }
}
