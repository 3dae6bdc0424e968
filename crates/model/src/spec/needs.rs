//! Capabilities that a lab needs of the machine: read by what proves them, and by the planner, which refuses
//! a lab on a machine without.

use std::collections::BTreeSet;

use super::dpdk::Dpdk;
use super::lab::Lab;
use super::link::Link;
use super::node::Node;
use super::storage::Storage;
use crate::diagnostic::Mark;
use crate::facts::document::Facts;
use crate::kinds::{Cable, DiskAio, DpdkDriver, LinkKind, StorageType, VmAttachment};

/// A capability that a lab makes use of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Its name in [`Facts`].
    pub capability: &'static str,
    /// How the lab is refused without it; `None` where it runs without.
    pub refusal: Option<Refusal>,
}

/// The refusal of a lab on a machine that lacks something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub at: Mark,
    pub why: String,
    /// The remedy when the machine's own facts know none.
    pub otherwise: String,
}

impl Need {
    pub(crate) fn must(capability: &'static str, at: Mark, why: &str, otherwise: &str) -> Need {
        Need {
            capability,
            refusal: Some(Refusal {
                at,
                why: why.into(),
                otherwise: otherwise.into(),
            }),
        }
    }

    fn wish(capability: &'static str) -> Need {
        Need {
            capability,
            refusal: None,
        }
    }
}

impl Lab {
    /// Names of all capabilities that it makes use of.
    pub fn capabilities(&self) -> BTreeSet<&'static str> {
        let nodes = self.nodes.iter().flat_map(|node| self.needs_of_node(node));
        let links = self.links.iter().flat_map(|link| self.needs_of_link(link));
        nodes.chain(links).map(|need| need.capability).collect()
    }

    /// The needs of a node: those of its limits, then those of its kind.
    pub fn needs_of_node(&self, node: &Node) -> Vec<Need> {
        let (name, fields, properties) = (&node.name.value, &node.fields, node.kind.properties());
        let isolate = fields.isolate.filter(|isolate| isolate.value);
        let limits = [
            (fields.cpus.map(|c| c.at), "cpus", Facts::CGROUP_CPU),
            (fields.memory.map(|m| m.at), "memory", Facts::CGROUP_MEMORY),
            (isolate.map(|i| i.at), "isolate", Facts::CGROUP_CPUSET),
            (
                fields.cpuset.as_ref().map(|c| c.at),
                "cpuset",
                Facts::CGROUP_CPUSET,
            ),
        ];
        let mut needs = Vec::new();
        for (at, key, capability) in limits {
            let Some(at) = at else { continue };
            let why = format!("`{key}` of node `{name}` cannot be enforced");
            needs.push(if properties.is_limited {
                Need::must(capability, at, &why, &format!("remove `{key}`"))
            } else {
                Need::wish(capability)
            });
        }
        needs.extend(needs_of_storage(node));
        if self.tuning_of(node).is_some() {
            needs.push(Need::wish(Facts::CGROUP_CPUSET));
        }
        let why = format!("node `{name}` is a {}", node.kind);
        let of_kind = properties.needs.capabilities.iter();
        needs.extend(
            of_kind.map(|(capability, otherwise)| {
                Need::must(capability, node.name.at, &why, otherwise)
            }),
        );
        needs.extend(properties.needs.wishes.iter().map(|name| Need::wish(name)));
        needs
    }

    pub fn needs_of_link(&self, link: &Link) -> Vec<Need> {
        let (name, kind) = (&link.name.value, link.kind.value);
        let of_kind = kind.capabilities(link.carrier()).iter();
        let why = format!("link `{name}` is of type {kind}");
        let otherwise = "use another `type`, or a kernel that has it";
        let mut needs: Vec<Need> = of_kind
            .map(|capability| Need::must(capability, link.kind.at, &why, otherwise))
            .collect();
        if let Some(cable) = link.cable.filter(|c| c.value == Cable::Netkit) {
            let why = format!("link `{name}` has netkit cables");
            let otherwise = "use `cable: veth`, or Linux 6.7 or later with CONFIG_NETKIT";
            needs.push(Need::must(Facts::NETKIT, cable.at, &why, otherwise));
        }
        needs.extend(self.needs_of_guest(link));
        needs.extend(self.needs_of_dpdk(link));
        for end in &link.endpoints {
            if let Some(at) = end.netem_at {
                let why = format!("link `{name}` has delay, jitter or loss");
                let otherwise =
                    "run it on a kernel with netem (sch_netem), or remove delay, jitter and loss";
                needs.push(Need::must(Facts::NETEM, at, &why, otherwise));
            }
            if end.impairment.rate.is_some() {
                let why = format!("link `{name}` has a rate");
                let otherwise = "run it on a kernel with tbf (sch_tbf), or remove `rate`";
                needs.push(Need::must(Facts::TBF, end.node.at, &why, otherwise));
            }
        }
        needs
    }

    /// The need of a VM at the end of a card of the host, or of a slice of one.
    fn needs_of_guest(&self, link: &Link) -> Option<Need> {
        let (name, kind) = (&link.name.value, link.kind.value);
        let mut ends = link.endpoints.iter();
        let is_guest = |name: &str| self.node(name).is_some_and(|node| node.kind.is_guest());
        let end = ends.find(|end| is_guest(&end.node))?;
        match (kind, link.vm.filter(|vm| vm.value == VmAttachment::Vfio)) {
            (LinkKind::Sriov, Some(vm)) => {
                let why = format!("link `{name}` gives functions to VMs by VFIO");
                let otherwise = "use `vm: macvtap`";
                Some(Need::must(Facts::VFIO, vm.at, &why, otherwise))
            }
            (LinkKind::Macvlan | LinkKind::Phys | LinkKind::Sriov, _) => {
                let why = format!("link `{name}` joins a vm to a {kind}");
                let otherwise = "use another `type`, or another kind of node";
                Some(Need::must(Facts::MACVTAP, end.node.at, &why, otherwise))
            }
            _ => None,
        }
    }

    /// The need of a node that drives its function by DPDK.
    fn needs_of_dpdk(&self, link: &Link) -> Option<Need> {
        let has_port = |node: &Node, dpdk: &Dpdk| {
            let mut ends = link.endpoints.iter();
            ends.any(|end| end.node.value == node.name.value && dpdk.has(&end.interface))
        };
        let ports = self.nodes.iter().filter_map(|node| {
            // A VM has an IOMMU of its own.
            let dpdk = node.dpdk().filter(|_| !node.kind.is_guest())?;
            let dpdk = Some(dpdk).filter(|dpdk| has_port(node, dpdk))?;
            let driver = dpdk.driver.filter(|d| d.value == DpdkDriver::Vfio)?;
            Some((node, driver))
        });
        let (node, driver) = ports.into_iter().next()?;
        let why = format!("DPDK in node `{}` drives its ports by VFIO", *node.name);
        let otherwise = "use `driver: af-packet`";
        Some(Need::must(Facts::VFIO, driver.at, &why, otherwise))
    }
}

/// The needs of a node's disks and layers on the host.
fn needs_of_storage(node: &Node) -> Vec<Need> {
    let name = &node.name.value;
    let of_one = |storage: &Storage| {
        let (at, aio) = (storage.kind.at, storage.aio.map(|aio| aio.value));
        let why = format!("node `{name}` has a {} at `{}`", *storage.kind, *storage.at);
        let need = |capability, otherwise: &str| Need::must(capability, at, &why, otherwise);
        match storage.kind.value {
            StorageType::Overlay => Some(need(Facts::OVERLAYFS, "use `type: volume`")),
            StorageType::Disk if !node.kind.is_guest() => {
                Some(need(Facts::LOOP, "use `type: volume`"))
            }
            StorageType::Disk if aio == Some(DiskAio::IoUring) => {
                Some(need(Facts::IO_URING, "use `aio: threads` or `aio: native`"))
            }
            _ => None,
        }
    };
    node.storage().iter().filter_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_of(topology: &str) -> Vec<&'static str> {
        let lab = Lab::parse(&format!("name: t\ntopology:\n{topology}")).expect("a readable lab");
        lab.capabilities().into_iter().collect()
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
            Facts::VHOST_NET,
        ];
        assert_eq!(needs, expected);
    }
}
