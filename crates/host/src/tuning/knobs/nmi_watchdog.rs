//! `nmi-watchdog`: the detector of hard lockups: a performance counter that interrupts every busy
//! processor.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "nmi-watchdog",
    about: "Detect processors that stay in the kernel with interrupts off",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst; Daichendt 2022, 5.13 (nmi_watchdog=0)",
    risk: "a hard lockup is not reported any more",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/kernel/nmi_watchdog",
            Form::Text,
            "this kernel has no hard lockup detector",
        )
    },
    value: Value::Same(switch),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
        let tree = Tree::new(&[("/proc/sys/kernel/nmi_watchdog", "1\n")]);
        tree.turns(
            "nmi-watchdog",
            "off",
            "/proc/sys/kernel/nmi_watchdog",
            "1",
            "0",
        );
        Tree::lacks("nmi-watchdog", "off", "no /proc/sys/kernel/nmi_watchdog");
    }
}
