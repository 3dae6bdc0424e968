//! `nic-coalescing`: interrupt moderation: how long a network card collects packets before it interrupts. `off`
//! interrupts at once, and adaptive moderation is always disabled.

use super::prelude::*;
use crate::tuning::items::Setting;

pub const KNOB: Knob = Knob {
    name: "nic-coalescing",
    about: "Interrupt moderation: how long network cards collect packets before an interrupt",
    evidence: "ethtool(8), --coalesce; Documentation/networking/ethtool-netlink.rst, COALESCE_GET",
    risk: "off: an interrupt per packet, which costs throughput",
    items: Items::Found(|m| cards(m, &[Setting::Coalescing], "none has coalescing to choose")),
    mapping: Mapping::Same(moderation),
};

/// The same for receive and send, not adaptive.
fn moderation(machine: &Machine<'_>, wanted: &Wanted) -> Result<String, KnobError> {
    let us = microseconds(machine, wanted)?;
    Ok(format!("{us}/{us}/0/0"))
}

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn a_card_without_driver_support_is_left_out() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-coalescing", "off").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-coalescing", "off", "no network card");
    }
}
