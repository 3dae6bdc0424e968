//! `thp-defrag`: whether a page fault waits until memory is compacted for a huge page.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "thp-defrag",
    about: "Compact memory in the page fault that wants a huge page",
    evidence: "Documentation/admin-guide/mm/transhuge.rst, defrag",
    risk: "never: fewer huge pages on a machine with fragmented memory",
    items: Items::File(
        "/sys/kernel/mm/transparent_hugepage/defrag",
        Form::Choice,
        "this kernel is built without transparent huge pages",
    ),
    mapping: Mapping::Same(word),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[(
            "/sys/kernel/mm/transparent_hugepage/defrag",
            "always defer defer+madvise [madvise] never\n",
        )]);
        tree.turns(
            "thp-defrag",
            "never",
            "/sys/kernel/mm/transparent_hugepage/defrag",
            "madvise",
            "never",
        );
        tree.turns(
            "thp-defrag",
            "defer+madvise",
            "/sys/kernel/mm/transparent_hugepage/defrag",
            "madvise",
            "defer+madvise",
        );
        Tree::lacks(
            "thp-defrag",
            "never",
            "no /sys/kernel/mm/transparent_hugepage/defrag",
        );
    }
}
