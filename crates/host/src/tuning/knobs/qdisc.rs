//! `qdisc`: the queueing discipline of interfaces created later. Existing interfaces keep theirs: its settings and
//! queued packets could not be restored.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "qdisc",
    about: "Queueing discipline of interfaces made later",
    evidence: "Documentation/admin-guide/sysctl/net.rst, default_qdisc",
    risk: "fq paces TCP and holds packets back; pfifo_fast lets one flow delay the others",
    items: Items::File(
        "/proc/sys/net/core/default_qdisc",
        Form::Text,
        "this is not the first network namespace, or the kernel has no queueing disciplines",
    ),
    mapping: Mapping::Same(word),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
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
