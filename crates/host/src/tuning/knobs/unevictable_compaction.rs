//! `unevictable-compaction`: whether compaction may move locked memory: mlock(2) keeps a page from
//! being swapped out, not from being moved, which is a page fault too.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "unevictable-compaction",
    about: "Let compaction move locked memory",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed",
    risk: "off: memory with much of it locked stays fragmented",
    items: Items::File(
        "/proc/sys/vm/compact_unevictable_allowed",
        Form::Text,
        "this kernel is built without compaction",
    ),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/vm/compact_unevictable_allowed", "1\n")]);
        tree.turns(
            "unevictable-compaction",
            "off",
            "/proc/sys/vm/compact_unevictable_allowed",
            "1",
            "0",
        );
        Tree::lacks(
            "unevictable-compaction",
            "off",
            "no /proc/sys/vm/compact_unevictable_allowed",
        );
    }
}
