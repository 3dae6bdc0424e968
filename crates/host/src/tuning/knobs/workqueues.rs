//! `workqueues`: the CPUs of unbound workqueues. Work that is queued for one CPU always runs there.

use super::prelude::*;

/// The default mask, and the mask of single workqueues.
const PATTERNS: [&str; 2] = [
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
];

pub const KNOB: Knob = Knob {
    name: "workqueues",
    about: "CPUs of unbound workqueues",
    evidence: "Documentation/core-api/workqueue.rst, Affinity Scopes; \
               Documentation/admin-guide/kernel-per-CPU-kthreads.rst, kworker",
    risk: "writeback and other deferred work share the housekeeping CPUs",
    items: Items::Found(|m| {
        let found = PATTERNS.iter().flat_map(|p| m.root.glob(p));
        let file = PATTERNS[0];
        files::some(
            found.map(|path| Item::file(path, Form::Mask)),
            format!("no {file}: this kernel does not show its workqueues"),
        )
    }),
    mapping: Mapping::Same(at_least_one_cpu),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_default_mask_and_each_own_mask_are_set() {
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
