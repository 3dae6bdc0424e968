//! `watchdog-cpus`: the CPUs that the lockup detectors watch; each watched CPU is interrupted for it.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "watchdog-cpus",
    about: "CPUs that the lockup detectors watch",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst, last paragraph",
    risk: "a lockup of the others is not reported",
    items: Items::File(
        "/proc/sys/kernel/watchdog_cpumask",
        Form::List,
        "this kernel has no lockup detectors",
    ),
    mapping: Mapping::Same(at_least_one_cpu),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/kernel/watchdog_cpumask", "0-3\n")]);
        tree.turns(
            "watchdog-cpus",
            "housekeeping",
            "/proc/sys/kernel/watchdog_cpumask",
            "0-3",
            "0-1",
        );
        Tree::lacks(
            "watchdog-cpus",
            "housekeeping",
            "no /proc/sys/kernel/watchdog_cpumask",
        );
    }
}
