//! `irq-default`: where interrupts go that are requested from now on.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "irq-default",
    about: "Processors of interrupts that are requested later",
    evidence: "Documentation/core-api/irq/irq-affinity.rst; Daichendt 2022, 5.13 (irqaffinity)",
    risk: "a driver loaded later has fewer processors for its queues",
    items: |m| {
        file::one(
            m.root,
            "/proc/irq/default_smp_affinity",
            Form::Mask,
            "this machine has no interrupts that can be moved",
        )
    },
    value: Value::Same(at_least_one_cpu),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
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
