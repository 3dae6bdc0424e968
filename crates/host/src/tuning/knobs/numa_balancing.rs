//! `numa-balancing`: unmapping pages now and then to see which memory node uses them. Each page that is
//! looked at costs its user a page fault.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "numa-balancing",
    about: "Move memory to the node that uses it, found out by page faults",
    evidence: "Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
    risk: "memory that was placed badly stays there: place it well",
    items: Items::File(
        "/proc/sys/kernel/numa_balancing",
        Form::Text,
        "this kernel is built without NUMA balancing",
    ),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/kernel/numa_balancing", "1\n")]);
        tree.turns(
            "numa-balancing",
            "off",
            "/proc/sys/kernel/numa_balancing",
            "1",
            "0",
        );
        Tree::lacks(
            "numa-balancing",
            "off",
            "no /proc/sys/kernel/numa_balancing",
        );
    }
}
