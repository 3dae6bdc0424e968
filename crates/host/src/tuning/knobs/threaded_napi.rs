//! `threaded-napi`: whether an interface receives packets in dedicated threads, which can be pinned and given a
//! priority, instead of in softirqs.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "threaded-napi",
    about: "Receive packets in threads instead of softirqs",
    evidence: "Documentation/networking/napi.rst, Threaded NAPI",
    risk: "one more context switch for each batch of packets",
    items: Items::Found(|m| {
        let mut found = m.root.glob("/sys/class/net/*/threaded");
        // Interfaces without hardware have the file, and most of them refuse it.
        found.retain(|path| m.root.has(path.with_file_name("device")));
        files::some(
            found.into_iter().map(|path| Item::file(path, Form::Text)),
            "no network card has threaded polling (kernels before 5.12 have none)",
        )
    }),
    mapping: Mapping::Same(switch),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn every_file_is_read_and_set() {
        let tree = Tree::new(&[
            ("/sys/class/net/eth0/threaded", "0\n"),
            ("/sys/class/net/eth0/device/x", ""),
            ("/sys/class/net/lo/threaded", "0\n"),
        ]);
        let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            tree.plan("threaded-napi", "on"),
            [text(("/sys/class/net/eth0/threaded", "0", "1")),]
        );
        Tree::lacks(
            "threaded-napi",
            "on",
            "no network card has threaded polling",
        );
    }
}
