//! `nic-queues`: how many queues a network card has, each with an interrupt of its own.

use super::prelude::*;
use crate::tuning::items::nic::Setting;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "nic-queues",
    about: "Queues of each network card",
    evidence: "ethtool(8), --set-channels; Documentation/networking/scaling.rst, RSS",
    risk: "the link pauses while a card makes its queues anew; IRQs get new numbers",
    items: |m| cards(m, &[Setting::Queues], "none has queues to choose"),
    value: Value::Same(number),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_cannot_be_asked_is_not_wanted() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-queues", "1").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-queues", "1", "no network card");
    }
}
