//! `halt-poll`: how long KVM spins for an idle vCPU before it yields the host's CPU. A vCPU that is woken within
//! that time skips the scheduler. The alternative is to spin inside the guest (`cpuidle.governor: haltpoll` at
//! its boot), which also saves the VM exit.

use super::prelude::*;

const FILE: &str = "/sys/module/kvm/parameters/halt_poll_ns";

pub const KNOB: Knob = Knob {
    name: "halt-poll",
    about: "Time that KVM spins for an idle guest",
    evidence: "Documentation/virt/kvm/halt-polling.rst; Documentation/virt/guest-halt-polling.rst",
    risk: "each time a guest sleeps it occupies a CPU of the host for that time, which counts as the guest's",
    items: Items::Found(|m| {
        files::one_unless_fixed(
            m.root,
            FILE,
            Form::Text,
            "this kernel has no KVM, or it is not loaded",
            "this kernel takes it at boot only: kvm.halt_poll_ns=",
        )
    }),
    mapping: Mapping::Same(nanoseconds),
};

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn the_value_is_read_and_set() {
        let tree = Tree::new(&[(FILE, "200000\n")]);
        tree.turns("halt-poll", "off", FILE, "200000", "0");
        tree.turns("halt-poll", "50us", FILE, "200000", "50000");
        Tree::lacks("halt-poll", "off", "this kernel has no KVM");
        let fixed = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(tree.root().path(FILE), fixed).unwrap();
        let absent = tree.change("halt-poll", "off").absent.unwrap();
        assert!(absent.contains("boot only: kvm.halt_poll_ns="), "{absent}");
    }
}
