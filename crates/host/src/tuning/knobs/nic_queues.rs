//! `nic-queues`: the number of a network card's queues, each with its own interrupt.

use super::prelude::*;
use crate::tuning::items::Setting;

pub const KNOB: Knob = Knob {
    name: "nic-queues",
    about: "Queues of each network card",
    evidence: "ethtool(8), --set-channels; Documentation/networking/scaling.rst, RSS",
    risk: "the link pauses while a card recreates its queues; IRQs get new numbers",
    items: Items::Found(|m| cards(m, &[Setting::Queues], "none has queues to choose")),
    mapping: Mapping::Same(number),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn a_card_without_driver_support_is_left_out() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-queues", "1").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-queues", "1", "no network card");
    }
}
