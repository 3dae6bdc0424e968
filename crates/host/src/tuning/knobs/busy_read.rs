//! `busy-read`: how long a read from a socket spins on the queue of its network card instead of
//! sleeping; sockets take it when they are made.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "busy-read",
    about: "Let reads of sockets spin on network queues so long",
    evidence: "Documentation/admin-guide/sysctl/net.rst, busy_read",
    risk: "a waiting program burns its core; sockets that exist keep their own",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/net/core/busy_read",
            Form::Text,
            "this kernel is built without busy polling, or this is not the first network namespace",
        )
    },
    value: Value::Same(microseconds),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
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
