//! `nic-offloads`: whether packets of a stream are joined when received (GRO) and divided when sent (GSO, TSO), by
//! the card or by the kernel: fewer, larger packets, each of which waits for the others.

use super::prelude::*;
use crate::tuning::items::nic::Setting;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "nic-offloads",
    about: "Join and divide packets of a stream (GRO, GSO, TSO)",
    evidence: "ethtool(8), --offload; Documentation/networking/segmentation-offloads.rst; Cui 2013 (VTOE)",
    risk: "off: more packets and more processor time for the same bytes",
    items: |m| {
        cards(
            m,
            &[Setting::Gro, Setting::Gso, Setting::Tso],
            "none has offloads to choose",
        )
    },
    value: Value::Same(on_or_off),
    moves: false,
};

fn on_or_off(_: &Machine<'_>, wanted: &Wanted) -> Result<String, Why> {
    Ok(wanted.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_cannot_be_asked_is_not_wanted() {
        // The tree has a card, which the kernel does not know.
        let tree = Tree::new(&[("/sys/class/net/nocard0/device/x", "")]);
        let absent = tree.change("nic-offloads", "off").absent.unwrap();
        assert!(absent.contains("nocard0"), "{absent}");
        Tree::lacks("nic-offloads", "off", "no network card");
    }
}
