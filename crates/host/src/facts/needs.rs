//! The capabilities that a lab needs, by name.

use std::collections::BTreeSet;

use latlab_model::facts::Facts;
use latlab_model::spec::{Cable, Lab, LinkKind, NodeKind};

/// The capabilities a lab uses.
pub(super) fn of(lab: &Lab) -> BTreeSet<&'static str> {
    let mut needs = BTreeSet::new();
    for node in &lab.nodes {
        let fields = &node.fields;
        if node.kind != NodeKind::Host {
            needs.insert(Facts::NAMESPACES);
        }
        match node.kind {
            NodeKind::Container => needs.extend([Facts::OVERLAYFS]),
            NodeKind::Vm => needs.extend([Facts::KVM, Facts::TAP]),
            NodeKind::Native | NodeKind::Host => {}
        }
        if fields.cpus.is_some() {
            needs.insert(Facts::CGROUP_CPU);
        }
        if fields.memory.is_some() {
            needs.insert(Facts::CGROUP_MEMORY);
        }
        let isolate = fields.isolate.as_ref().is_some_and(|isolate| isolate.value);
        if fields.cpuset.is_some() || isolate || lab.tuning_of(node).is_some() {
            needs.insert(Facts::CGROUP_CPUSET);
        }
    }
    let is_vm = |name: &str| {
        let mut nodes = lab.nodes.iter();
        nodes.any(|node| node.name.value == name && node.kind == NodeKind::Vm)
    };
    for link in &lab.links {
        needs.extend(link.capabilities());
        if link.cable() == Cable::Netkit {
            needs.insert(Facts::NETKIT);
        }
        let is_macvlan = link.kind.value == LinkKind::Macvlan;
        if is_macvlan && link.endpoints.iter().any(|end| is_vm(&end.node)) {
            needs.insert(Facts::MACVTAP);
        }
        for end in &link.endpoints {
            if end.impairment.rate.is_some() {
                needs.insert(Facts::TBF);
            }
            if end.impairment.needs_netem() {
                needs.insert(Facts::NETEM);
            }
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_of(topology: &str) -> Vec<&'static str> {
        let lab = Lab::parse(&format!("name: t\ntopology:\n{topology}")).expect("a readable lab");
        of(&lab).into_iter().collect()
    }

    #[test]
    fn a_plain_lab_needs_little() {
        let needs = needs_of(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links: [{endpoints: ['a:eth0', 'b:eth0']}]",
        );
        assert_eq!(needs, [Facts::NAMESPACES, Facts::VETH]);
        let needs = needs_of(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links: [{type: overlay, cable: netkit, endpoints: ['a:eth0', 'b:eth0']}]",
        );
        let expected = [
            Facts::BPF,
            Facts::NAMESPACES,
            Facts::NETKIT,
            Facts::TAP,
            Facts::VETH,
        ];
        assert_eq!(needs, expected);
    }

    #[test]
    fn each_wish_adds_its_capability() {
        let needs = needs_of(
            "  nodes: {a: {kind: container, memory: 64MiB}, b: {kind: vm}}
  links:
    - {type: macvlan, endpoints: ['a:eth0', 'b:eth0']}
    - {type: nat, endpoints: ['a:eth1', 'b:eth1'], delay: 1ms, rate: 1Gbit}",
        );
        let expected = [
            Facts::BRIDGE,
            Facts::CGROUP_MEMORY,
            Facts::KVM,
            Facts::MACVLAN,
            Facts::MACVTAP,
            Facts::MASQUERADE,
            Facts::NAMESPACES,
            Facts::NETEM,
            Facts::OVERLAYFS,
            Facts::TAP,
            Facts::TBF,
            Facts::VETH,
        ];
        assert_eq!(needs, expected);
    }
}
