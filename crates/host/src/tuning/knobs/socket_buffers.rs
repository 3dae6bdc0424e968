//! `socket-buffers`: the largest buffer that a program may request for a socket, or that TCP may choose.

use super::prelude::*;

const FILES: &str = "/proc/sys/net/core/*mem_max";

pub const KNOB: Knob = Knob {
    name: "socket-buffers",
    about: "Largest receive and send buffer that a socket may ask for",
    evidence: "Documentation/admin-guide/sysctl/net.rst, rmem_max and wmem_max",
    risk: "memory that any program may take; longer queues instead of losses",
    items: Items::Found(|m| {
        let mut found = m.root.glob(FILES);
        found.retain(|path| path.ends_with("rmem_max") || path.ends_with("wmem_max"));
        files::some(
            found.into_iter().map(|path| Item::file(path, Form::Text)),
            format!("no {FILES}: this is not the first network namespace"),
        )
    }),
    mapping: Mapping::Same(bytes),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn both_directions_are_set() {
        let tree = Tree::new(&[
            ("/proc/sys/net/core/rmem_max", "212992\n"),
            ("/proc/sys/net/core/wmem_max", "212992\n"),
            ("/proc/sys/net/core/optmem_max", "131072\n"),
        ]);
        let plan = tree.plan("socket-buffers", "64MiB");
        assert_eq!(plan.len(), 2);
        assert!(
            plan.iter()
                .all(|(_, from, to)| from == "212992" && to == "67108864")
        );
        Tree::lacks("socket-buffers", "64MiB", "network namespace");
    }
}
