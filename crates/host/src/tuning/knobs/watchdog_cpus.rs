//! `watchdog-cpus`: which processors the lockup detectors watch; each watched one is interrupted for
//! it.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "watchdog-cpus",
    about: "Processors that the lockup detectors watch",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst, last paragraph",
    risk: "a lockup of the others is not reported",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/kernel/watchdog_cpumask",
            Form::List,
            "this kernel has no lockup detectors",
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
