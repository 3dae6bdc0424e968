//! `nmi-watchdog`: the hard lockup detector: a performance counter that interrupts every busy CPU.

use super::prelude::*;

const FILE: &str = "/proc/sys/kernel/nmi_watchdog";

pub const KNOB: Knob = Knob {
    name: "nmi-watchdog",
    about: "Detect CPUs that stay in the kernel with interrupts off",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst; Daichendt 2022, 5.13 (nmi_watchdog=0)",
    risk: "a hard lockup is not reported any more",
    // The file is read-only where the CPU has no counter for it, as most virtual ones.
    items: Items::Found(|m| {
        files::one_unless_fixed(
            m.root,
            FILE,
            Form::Text,
            "this kernel has no hard lockup detector",
            "the CPU has no counter for a hard lockup detector",
        )
    }),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[(FILE, "1\n")]);
        tree.turns("nmi-watchdog", "off", FILE, "1", "0");
        Tree::lacks("nmi-watchdog", "off", "no /proc/sys/kernel/nmi_watchdog");
        let fixed = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(tree.root().path(FILE), fixed).unwrap();
        let absent = tree.change("nmi-watchdog", "off").absent.unwrap();
        assert!(absent.contains("cannot be written"), "{absent}");
    }
}
