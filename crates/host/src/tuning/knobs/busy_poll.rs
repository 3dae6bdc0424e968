//! `busy-poll`: how long poll(2) and select(2) spin on the queues of network cards instead of sleeping.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "busy-poll",
    about: "Time that poll and select spin on network queues",
    evidence: "Documentation/admin-guide/sysctl/net.rst, busy_poll",
    risk: "a waiting program burns its core",
    items: Items::File(
        "/proc/sys/net/core/busy_poll",
        Form::Text,
        "this kernel is built without busy polling, or this is not the first network namespace",
    ),
    mapping: Mapping::Same(microseconds),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/net/core/busy_poll", "0\n")]);
        tree.turns(
            "busy-poll",
            "50us",
            "/proc/sys/net/core/busy_poll",
            "0",
            "50",
        );
        tree.turns("busy-poll", "off", "/proc/sys/net/core/busy_poll", "0", "0");
        Tree::lacks("busy-poll", "50us", "no /proc/sys/net/core/busy_poll");
    }
}
