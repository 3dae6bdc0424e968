//! `swappiness`: how readily anonymous memory is swapped out rather than cached files dropped.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "swappiness",
    about: "Swap memory out rather than drop cached files, 0 to 200",
    evidence: "Documentation/admin-guide/sysctl/vm.rst, swappiness",
    risk: "0 or 1: memory is short sooner where there is swap",
    items: Items::File(
        "/proc/sys/vm/swappiness",
        Form::Text,
        "this kernel is built without swap",
    ),
    mapping: Mapping::Same(number),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[("/proc/sys/vm/swappiness", "60\n")]);
        tree.turns("swappiness", "1", "/proc/sys/vm/swappiness", "60", "1");
        Tree::lacks("swappiness", "1", "no /proc/sys/vm/swappiness");
    }
}
