//! `halt-poll`: how long KVM spins when a guest's processor has nothing to do, before it gives the host's
//! processor away. A guest that is woken within that time has not left it. The other choice is to spin
//! inside the guest (`cpuidle.governor: haltpoll` at its boot), which spares the way out and back.

use super::prelude::*;

const FILE: &str = "/sys/module/kvm/parameters/halt_poll_ns";

/// See the module.
pub const KNOB: Knob = Knob {
    name: "halt-poll",
    about: "Time that KVM spins for a guest with nothing to do",
    evidence: "Documentation/virt/kvm/halt-polling.rst; Documentation/virt/guest-halt-polling.rst",
    risk: "a guest that sleeps uses a processor of the host for so long each time; it counts as the guest's",
    items: |m| {
        file::one_unless_fixed(
            m.root,
            FILE,
            Form::Text,
            "this kernel has no KVM, or it is not loaded",
            "not while this kernel runs: boot it with kvm.halt_poll_ns=",
        )
    },
    value: Value::Same(nanoseconds),
    moves: false,
};

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_read_and_wanted() {
        let tree = Tree::new(&[(FILE, "200000\n")]);
        tree.turns("halt-poll", "off", FILE, "200000", "0");
        tree.turns("halt-poll", "50us", FILE, "200000", "50000");
        Tree::lacks("halt-poll", "off", "this kernel has no KVM");
        let fixed = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(tree.root().path(FILE), fixed).unwrap();
        let absent = tree.change("halt-poll", "off").absent.unwrap();
        assert!(
            absent.contains("boot it with kvm.halt_poll_ns="),
            "{absent}"
        );
    }
}
