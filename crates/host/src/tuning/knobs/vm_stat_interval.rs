//! `vm-stat-interval`: how often every processor's counters of memory are summed: a kernel thread on
//! each of them.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "vm-stat-interval",
    about: "Time between updates of the counters of memory",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, stat_interval; Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    risk: "free memory in /proc/meminfo may be late by as much",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/vm/stat_interval",
            Form::Text,
            "this kernel is built without the counters",
        )
    },
    value: Value::Same(seconds),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
        let tree = Tree::new(&[("/proc/sys/vm/stat_interval", "1\n")]);
        tree.turns(
            "vm-stat-interval",
            "120s",
            "/proc/sys/vm/stat_interval",
            "1",
            "120",
        );
        Tree::lacks("vm-stat-interval", "120s", "no /proc/sys/vm/stat_interval");
    }
}
