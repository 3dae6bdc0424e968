//! `soft-watchdog`: the soft lockup detector: every 4 s a timer on every watched CPU, which interrupts its thread.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "soft-watchdog",
    about: "Detect CPUs on which no other thread gets to run",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst; Daichendt 2022, 5.13 (nosoftlockup)",
    risk: "a soft lockup is not reported any more",
    items: Items::File(
        "/proc/sys/kernel/soft_watchdog",
        Form::Text,
        "this kernel has no soft lockup detector",
    ),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/kernel/soft_watchdog", "1\n")]);
        tree.turns(
            "soft-watchdog",
            "off",
            "/proc/sys/kernel/soft_watchdog",
            "1",
            "0",
        );
        Tree::lacks("soft-watchdog", "off", "no /proc/sys/kernel/soft_watchdog");
    }
}
