//! `thp`: huge pages without asking. A page fault then clears 2 MiB, and khugepaged stops threads to
//! gather small pages.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "thp",
    about: "Give memory in huge pages without being asked",
    evidence: "Documentation/admin-guide/mm/transhuge.rst; Welch 2015, 3.1.3.2 (huge pages)",
    risk: "never: more misses of the TLB for programs with much memory; always: long page faults",
    items: |m| {
        file::one(
            m.root,
            "/sys/kernel/mm/transparent_hugepage/enabled",
            Form::Choice,
            "this kernel is built without transparent huge pages",
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
