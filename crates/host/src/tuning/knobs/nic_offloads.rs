//! `nic-offloads`: whether the card or the kernel merges received packets of a stream (GRO) and segments sent ones
//! (GSO, TSO): fewer, larger packets, each of which waits for others.

use super::prelude::*;
use crate::tuning::items::Setting;

pub const KNOB: Knob = Knob {
    name: "nic-offloads",
    about: "Merge and segment packets of a stream (GRO, GSO, TSO)",
    evidence: "ethtool(8), --offload; Documentation/networking/segmentation-offloads.rst; Cui 2013 (VTOE)",
    risk: "off: more packets and more CPU time for the same bytes",
    items: Items::Found(|m| {
        cards(
            m,
            &[Setting::Gro, Setting::Gso, Setting::Tso],
            "none has offloads to choose",
        )
    }),
    mapping: Mapping::Same(|_, wanted| Ok(wanted.to_string())),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn a_card_without_driver_support_is_left_out() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-offloads", "off").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-offloads", "off", "no network card");
    }
}
