//! `rt-throttling`: the share of each period (kernel.sched_rt_period_us, 1 s) that real-time threads may use. After
//! it the kernel stops them for the rest: 50 ms per second by default.
//!
//! With PREEMPT_RT a thread that never sleeps blocks more than its neighbours: timers of ordinary tasks and RCU
//! callbacks run in threads on its core. A `sleep` that began on that core then never ends, wherever its task
//! could run (seen in a guest with Debian's real-time kernel).

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "rt-throttling",
    about: "Time that real-time threads may use in each second",
    evidence: "Documentation/scheduler/sched-rt-group.rst, section 2.1",
    risk: "off: a real-time thread that never sleeps takes its core for ever; with PREEMPT_RT, timers \
           set there by ordinary tasks never expire",
    items: Items::File(
        "/proc/sys/kernel/sched_rt_runtime_us",
        Form::Text,
        "this kernel is built without real-time scheduling",
    ),
    mapping: Mapping::Same(microseconds_or_minus_1),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/kernel/sched_rt_runtime_us", "950000\n")]);
        tree.turns(
            "rt-throttling",
            "off",
            "/proc/sys/kernel/sched_rt_runtime_us",
            "950000",
            "-1",
        );
        tree.turns(
            "rt-throttling",
            "950ms",
            "/proc/sys/kernel/sched_rt_runtime_us",
            "950000",
            "950000",
        );
        Tree::lacks(
            "rt-throttling",
            "off",
            "no /proc/sys/kernel/sched_rt_runtime_us",
        );
    }
}
