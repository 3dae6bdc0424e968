//! `soft-watchdog`: the detector of soft lockups: a timer and a stop of the running thread every four
//! seconds on every watched processor.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "soft-watchdog",
    about: "Detect processors on which nothing else gets to run",
    evidence: "Documentation/admin-guide/lockup-watchdogs.rst; Daichendt 2022, 5.13 (nosoftlockup)",
    risk: "a soft lockup is not reported any more",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/kernel/soft_watchdog",
            Form::Text,
            "this kernel has no soft lockup detector",
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
