//! `thp-defrag`: whether a page fault waits until memory is compacted for a huge page.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "thp-defrag",
    about: "Compact memory in the page fault that wants a huge page",
    evidence: "Documentation/admin-guide/mm/transhuge.rst, defrag",
    risk: "never: fewer huge pages on a machine whose memory is in pieces",
    items: |m| {
        file::one(
            m.root,
            "/sys/kernel/mm/transparent_hugepage/defrag",
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
