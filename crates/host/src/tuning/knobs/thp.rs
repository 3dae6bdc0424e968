//! `thp`: transparent huge pages. A page fault then clears 2 MiB, and khugepaged stops threads to collapse small
//! pages.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "thp",
    about: "Transparent huge pages: memory in huge pages without a request",
    evidence: "Documentation/admin-guide/mm/transhuge.rst; Welch 2015, 3.1.3.2 (huge pages)",
    risk: "never: more TLB misses for programs with much memory; always: long page faults",
    items: Items::File(
        "/sys/kernel/mm/transparent_hugepage/enabled",
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
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        )]);
        tree.turns(
            "thp",
            "never",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "madvise",
            "never",
        );
        Tree::lacks(
            "thp",
            "never",
            "no /sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
}
