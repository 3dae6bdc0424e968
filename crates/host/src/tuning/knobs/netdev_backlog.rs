//! `netdev-backlog`: packets that may wait for a CPU (RPS, veth, loopback) before more are dropped.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "netdev-backlog",
    about: "Packets that may wait for a CPU",
    evidence: "Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog",
    risk: "more: longer waits instead of losses",
    items: Items::File(
        "/proc/sys/net/core/netdev_max_backlog",
        Form::Text,
        "this is not the first network namespace",
    ),
    mapping: Mapping::Same(number),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/net/core/netdev_max_backlog", "1000\n")]);
        tree.turns(
            "netdev-backlog",
            "10000",
            "/proc/sys/net/core/netdev_max_backlog",
            "1000",
            "10000",
        );
        Tree::lacks(
            "netdev-backlog",
            "10000",
            "no /proc/sys/net/core/netdev_max_backlog",
        );
    }
}
