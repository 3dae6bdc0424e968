//! `busy-read`: how long a read from a socket spins on the queue of its network card instead of
//! sleeping; sockets take it when they are created.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "busy-read",
    about: "Time that socket reads spin on network queues",
    evidence: "Documentation/admin-guide/sysctl/net.rst, busy_read",
    risk: "a waiting program burns its core; sockets that exist keep their own",
    items: Items::File(
        "/proc/sys/net/core/busy_read",
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
        let tree = Tree::new(&[("/proc/sys/net/core/busy_read", "0\n")]);
        tree.turns(
            "busy-read",
            "50us",
            "/proc/sys/net/core/busy_read",
            "0",
            "50",
        );
        Tree::lacks("busy-read", "50us", "no /proc/sys/net/core/busy_read");
    }
}
