//! `dirty-writeback`: how often the kernel writes dirty pages to the disk, in workqueues on any allowed CPU.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "dirty-writeback",
    about: "Time between writebacks of dirty pages",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, dirty_writeback_centisecs",
    risk: "longer: more is lost when the power fails; off: written only when memory is short or sync is called",
    items: Items::File(
        "/proc/sys/vm/dirty_writeback_centisecs",
        Form::Text,
        "this kernel has no writeback of its own",
    ),
    mapping: Mapping::Same(centiseconds),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/vm/dirty_writeback_centisecs", "500\n")]);
        tree.turns(
            "dirty-writeback",
            "15s",
            "/proc/sys/vm/dirty_writeback_centisecs",
            "500",
            "1500",
        );
        tree.turns(
            "dirty-writeback",
            "off",
            "/proc/sys/vm/dirty_writeback_centisecs",
            "500",
            "0",
        );
        Tree::lacks(
            "dirty-writeback",
            "15s",
            "no /proc/sys/vm/dirty_writeback_centisecs",
        );
    }
}
