//! `xps`: transmit packet steering: the CPUs that use a transmit queue. Cards with one queue refuse to read the
//! file; they are left out.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "xps",
    about: "CPUs that use a transmit queue",
    evidence: "Documentation/networking/scaling.rst, XPS",
    risk: "CPUs without their own queue share one, and its lock",
    items: Items::Files(
        "/sys/class/net/*/queues/tx-*/xps_cpus",
        Form::Mask,
        "no interface has several transmit queues",
    ),
    mapping: Mapping::Same(cpus),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn every_file_is_read_and_set() {
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
