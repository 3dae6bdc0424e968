//! `rt-throttling`: the share of each period (kernel.sched_rt_period_us, 1 s) that real-time threads
//! may use. At the end of it the kernel stops them for the rest: 50 ms of silence a second, by default.
//!
//! With PREEMPT_RT what a thread that never sleeps keeps off its core is more than its neighbours: timers of
//! ordinary tasks expire, and callbacks of RCU run, in threads there, so that a `sleep` which began on that
//! core does not end, wherever its task could run (seen in a guest with Debian's real-time kernel).

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "rt-throttling",
    about: "Time that real-time threads may use in each second",
    evidence: "Documentation/scheduler/sched-rt-group.rst, section 2.1",
    risk: "off: a real-time thread that never sleeps takes its core for ever; with PREEMPT_RT timers that \
           ordinary tasks set there do not expire either",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/kernel/sched_rt_runtime_us",
            Form::Text,
            "this kernel is built without real-time scheduling",
        )
    },
    value: Value::Same(microseconds_or_minus_1),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
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
