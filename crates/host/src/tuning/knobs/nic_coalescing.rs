//! `nic-coalescing`: how long a network card gathers packets before it interrupts; `off` is at once, and the card
//! does not adapt it by itself.

use super::prelude::*;
use crate::tuning::items::nic::Setting;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "nic-coalescing",
    about: "How long network cards gather packets before they interrupt",
    evidence: "ethtool(8), --coalesce; Documentation/networking/ethtool-netlink.rst, COALESCE_GET",
    risk: "off: an interrupt a packet, which costs throughput",
    items: |m| cards(m, &[Setting::Coalescing], "none has coalescing to choose"),
    value: Value::Same(gather),
    moves: false,
};

/// Received and sent alike, not adapted.
fn gather(machine: &Machine<'_>, wanted: &Wanted) -> Result<String, Why> {
    let us = microseconds(machine, wanted)?;
    Ok(format!("{us}/{us}/0/0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_cannot_be_asked_is_not_wanted() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-coalescing", "off").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-coalescing", "off", "no network card");
    }
}
