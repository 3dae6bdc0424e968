//! `timer-migration`: whether the timers of an idle processor move to one that is awake. Off, a timer
//! fires where it was set, so that a busy isolated core is not handed those of the others.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "timer-migration",
    about: "Move the timers of idle processors to busy ones",
    evidence: "kernel/time/timer_migration.c, its head (since 6.9); get_nohz_timer_target() in kernel/sched/core.c",
    risk: "idle housekeeping cores wake for their own timers: a little more power",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/kernel/timer_migration",
            Form::Text,
            "this kernel has no timer migration",
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
        let tree = Tree::new(&[("/proc/sys/kernel/timer_migration", "1\n")]);
        tree.turns(
            "timer-migration",
            "off",
            "/proc/sys/kernel/timer_migration",
            "1",
            "0",
        );
        tree.turns(
            "timer-migration",
            "on",
            "/proc/sys/kernel/timer_migration",
            "1",
            "1",
        );
        Tree::lacks(
            "timer-migration",
            "off",
            "no /proc/sys/kernel/timer_migration",
        );
    }
}
