//! `ksm`: merging equal pages. A thread of the kernel compares memory all the time, and the first
//! write to a merged page is a page fault.

use super::prelude::*;

const RUN: &str = "/sys/kernel/mm/ksm/run";

pub const KNOB: Knob = Knob {
    name: "ksm",
    about: "Merge equal pages of memory",
    evidence: "Documentation/admin-guide/mm/ksm.rst, run",
    risk: "off: guests of the same image take more memory; unmerge: what was merged takes its memory again at once",
    items: Items::File(RUN, Form::Text, "this kernel is built without KSM"),
    mapping: Mapping::Same(|m, wanted| {
        Ok(match word(m, wanted)?.as_str() {
            "on" => "1",
            "unmerge" => "2",
            _ => "0",
        }
        .to_string())
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn words_map_to_the_kernels_numbers() {
        let tree = Tree::new(&[(RUN, "1\n")]);
        tree.turns("ksm", "off", RUN, "1", "0");
        tree.turns("ksm", "unmerge", RUN, "1", "2");
        Tree::lacks("ksm", "off", RUN);
    }
}
