//! `rps`: receive packet steering: to which processors the packets of a queue are handed, each by an
//! interrupt of the other.

use super::prelude::*;

/// See the module.
pub const KNOB: Knob = Knob {
    name: "rps",
    about: "Hand received packets to other processors",
    evidence: "Documentation/networking/scaling.rst, RPS",
    risk: "none: one processor does all the work of a queue",
    items: |m| {
        file::each(
            m.root,
            "/sys/class/net/*/queues/rx-*/rps_cpus",
            Form::Mask,
            "no interface steers received packets",
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
