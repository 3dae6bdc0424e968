//! `compaction`: how eagerly memory is compacted in the background, which moves pages and interrupts
//! all CPUs to flush their TLB.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "compaction",
    about: "Compact memory in the background, 0 not at all",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness",
    risk: "0: huge pages are harder to get later",
    items: Items::File(
        "/proc/sys/vm/compaction_proactiveness",
        Form::Text,
        "this kernel is built without compaction",
    ),
    mapping: Mapping::Same(number),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/vm/compaction_proactiveness", "20\n")]);
        tree.turns(
            "compaction",
            "0",
            "/proc/sys/vm/compaction_proactiveness",
            "20",
            "0",
        );
        Tree::lacks(
            "compaction",
            "0",
            "no /proc/sys/vm/compaction_proactiveness",
        );
    }
}
