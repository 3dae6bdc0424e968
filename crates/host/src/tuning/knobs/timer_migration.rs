//! `timer-migration`: whether timers of an idle CPU move to a busy one. Off, a timer fires on the CPU where it was
//! set, so that a busy isolated core does not run those of others.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "timer-migration",
    about: "Move the timers of idle CPUs to busy ones",
    evidence: "kernel/time/timer_migration.c, its head (since 6.9); get_nohz_timer_target() in kernel/sched/core.c",
    risk: "idle housekeeping cores wake for their own timers: a little more power",
    items: Items::File(
        "/proc/sys/kernel/timer_migration",
        Form::Text,
        "this kernel has no timer migration",
    ),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
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
