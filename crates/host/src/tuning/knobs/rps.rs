//! `rps`: receive packet steering: the CPUs to which the packets of a queue are passed, each by an IPI.

use super::prelude::*;

pub const KNOB: Knob = Knob {
    name: "rps",
    about: "Pass received packets to other CPUs",
    evidence: "Documentation/networking/scaling.rst, RPS",
    risk: "none: one CPU does all the work of a queue",
    items: Items::Files(
        "/sys/class/net/*/queues/rx-*/rps_cpus",
        Form::Mask,
        "no interface steers received packets",
    ),
    mapping: Mapping::Same(cpus),
};

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn every_file_is_read_and_set() {
        let tree = Tree::new(&[
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
            ("/sys/class/net/eth0/queues/rx-1/rps_cpus", "c\n"),
        ]);
        let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            tree.plan("rps", "none"),
            [
                text(("/sys/class/net/eth0/queues/rx-0/rps_cpus", "none", "none")),
                text(("/sys/class/net/eth0/queues/rx-1/rps_cpus", "2-3", "none")),
            ]
        );
        Tree::lacks("rps", "none", "no /sys/class/net/*/queues/rx-*/rps_cpus");
    }
}
