//! `irq-affinity`: the CPUs that take interrupts. Managed interrupts (one per CPU and queue, placed by the kernel)
//! cannot be moved and are reported as fixed; an isolated CPU that issues no requests gets none of them.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "irq-affinity",
    about: "CPUs that take interrupts",
    evidence: "Documentation/core-api/irq/irq-affinity.rst; Daichendt 2022, 5.13 (irqaffinity=0)",
    risk: "the housekeeping CPUs carry all interrupts: their throughput may fall",
    items: Items::Files(
        "/proc/irq/*/smp_affinity_list",
        Form::List,
        "this machine has no interrupts that can be moved",
    ),
    mapping: Mapping::Same(at_least_one_cpu),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn every_file_is_read_and_set() {
        let tree = Tree::new(&[
            ("/proc/irq/2/smp_affinity_list", "0-3\n"),
            ("/proc/irq/10/smp_affinity_list", "2\n"),
            ("/proc/irq/default_smp_affinity", "f\n"),
        ]);
        let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            tree.plan("irq-affinity", "housekeeping"),
            [
                text(("/proc/irq/2/smp_affinity_list", "0-3", "0-1")),
                text(("/proc/irq/10/smp_affinity_list", "2", "0-1")),
            ]
        );
        Tree::lacks(
            "irq-affinity",
            "housekeeping",
            "no /proc/irq/*/smp_affinity_list",
        );
    }
}
