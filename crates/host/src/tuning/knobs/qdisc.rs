//! `qdisc`: the queueing discipline of interfaces that come from now on. Those that are there keep
//! theirs: its settings and what waits in it could not be given back.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "qdisc",
    about: "Queueing discipline of interfaces made later",
    evidence: "Documentation/admin-guide/sysctl/net.rst, default_qdisc",
    risk: "fq paces TCP and holds packets back; pfifo_fast lets one flow delay the others",
    items: |m| {
        file::one(
            m.root,
            "/proc/sys/net/core/default_qdisc",
            Form::Text,
            "this is not the first network namespace, or the kernel has no queueing disciplines",
        )
    },
    value: Value::Same(word),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
        let tree = Tree::new(&[("/proc/sys/net/core/default_qdisc", "fq_codel\n")]);
        tree.turns(
            "qdisc",
            "fq",
            "/proc/sys/net/core/default_qdisc",
            "fq_codel",
            "fq",
        );
        Tree::lacks("qdisc", "fq", "no /proc/sys/net/core/default_qdisc");
    }
}
