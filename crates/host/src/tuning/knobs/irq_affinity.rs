//! `irq-affinity`: which processors take interrupts. Those whose affinity the driver has given to the
//! kernel (managed interrupts, one a processor and queue) cannot be moved; they are reported as fixed,
//! and an isolated processor that issues no requests of its own gets none of them.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "irq-affinity",
    about: "Processors that take interrupts",
    evidence: "Documentation/core-api/irq/irq-affinity.rst; Daichendt 2022, 5.13 (irqaffinity=0)",
    risk: "the housekeeping processors carry all interrupts: their throughput may fall",
    items: |m| {
        file::each(
            m.root,
            "/proc/irq/*/smp_affinity_list",
            Form::List,
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
    fn every_one_is_read_and_wanted() {
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
