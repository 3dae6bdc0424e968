//! `xps`: transmit packet steering: which processors use a transmit queue. Cards with one queue have
//! the file and refuse to read it; they are left out.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "xps",
    about: "Processors that use a transmit queue",
    evidence: "Documentation/networking/scaling.rst, XPS",
    risk: "processors without a queue of their own share one, and its lock",
    items: |m| {
        file::each(
            m.root,
            "/sys/class/net/*/queues/tx-*/xps_cpus",
            Form::Mask,
            "no interface has several transmit queues",
        )
    },
    value: Value::Same(cpus),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_read_and_wanted() {
        let tree = Tree::new(&[("/sys/class/net/eth0/queues/tx-0/xps_cpus", "f\n")]);
        let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            tree.plan("xps", "housekeeping"),
            [text((
                "/sys/class/net/eth0/queues/tx-0/xps_cpus",
                "0-3",
                "0-1"
            )),]
        );
        Tree::lacks(
            "xps",
            "housekeeping",
            "no /sys/class/net/*/queues/tx-*/xps_cpus",
        );
    }
}
