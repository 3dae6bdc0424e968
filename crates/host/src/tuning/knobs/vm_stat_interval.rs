//! `vm-stat-interval`: how often the per-CPU memory counters are summed, by a kernel thread on each CPU.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "vm-stat-interval",
    about: "Time between updates of the memory counters",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, stat_interval; Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    risk: "free memory in /proc/meminfo may be late by as much",
    items: Items::File(
        "/proc/sys/vm/stat_interval",
        Form::Text,
        "this kernel is built without the counters",
    ),
    mapping: Mapping::Same(seconds),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/vm/stat_interval", "1\n")]);
        tree.turns(
            "vm-stat-interval",
            "120s",
            "/proc/sys/vm/stat_interval",
            "1",
            "120",
        );
        Tree::lacks("vm-stat-interval", "120s", "no /proc/sys/vm/stat_interval");
    }
}
