//! `irq-default`: the default affinity of interrupts that are requested later.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "irq-default",
    about: "CPUs of interrupts that are requested later",
    evidence: "Documentation/core-api/irq/irq-affinity.rst; Daichendt 2022, 5.13 (irqaffinity)",
    risk: "a driver loaded later has fewer CPUs for its queues",
    items: Items::File(
        "/proc/irq/default_smp_affinity",
        Form::Mask,
        "this machine has no interrupts that can be moved",
    ),
    mapping: Mapping::Same(at_least_one_cpu),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/irq/default_smp_affinity", "f\n")]);
        tree.turns(
            "irq-default",
            "housekeeping",
            "/proc/irq/default_smp_affinity",
            "0-3",
            "0-1",
        );
        tree.turns(
            "irq-default",
            "1",
            "/proc/irq/default_smp_affinity",
            "0-3",
            "1",
        );
        Tree::lacks(
            "irq-default",
            "housekeeping",
            "no /proc/irq/default_smp_affinity",
        );
    }
}
