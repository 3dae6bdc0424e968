//! Resolution of the names of a lab's nodes, each as each of the others sees it.
//!
//! A name leads to the address on the first link that joins the two nodes, for each family by itself. Nodes
//! that no link joins know each other by the first address of each: a route may lead there, and a name
//! without an address never helps.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::link::{LinkPlan, Medium};
use super::names::Names;
use super::node::NodePlan;

/// Resolves every name of a lab.
pub(super) fn names(nodes: &[NodePlan], links: &[LinkPlan]) -> Names {
    let mut names = Names::default();
    for node in nodes {
        let first = [false, true].map(|ipv6| {
            let mut all = node.interfaces.iter().flat_map(|i| &i.addresses);
            all.find(|a| a.addr().is_ipv6() == ipv6).map(IpNet::addr)
        });
        let seen = Seen { node, nodes, links };
        for (from, addresses) in seen.by_others(first) {
            let others = names.seen_by.entry(from.to_owned()).or_default();
            others.insert(node.name.clone(), addresses);
        }
        let addresses = first.into_iter().flatten().collect();
        names.nodes.insert(node.name.clone(), addresses);
    }
    names
}

/// A node as others see it.
struct Seen<'a> {
    node: &'a NodePlan,
    nodes: &'a [NodePlan],
    links: &'a [LinkPlan],
}

impl<'a> Seen<'a> {
    /// Those that see it by other addresses than `first`, and these.
    fn by_others(&self, first: [Option<IpAddr>; 2]) -> Vec<(&'a str, Vec<IpAddr>)> {
        // Without a second interface or a translation all see the same.
        let plain = |link: &LinkPlan| !matches!(link.medium, Medium::Nat(_));
        if let [only] = self.node.interfaces.as_slice() {
            if plain(&self.links[only.link]) {
                return Vec::new();
            }
        }
        let mut seen: BTreeMap<usize, [Option<IpAddr>; 2]> = BTreeMap::new();
        let mut known = [HashSet::new(), HashSet::new()];
        for (index, interface) in self.node.interfaces.iter().enumerate() {
            let link = &self.links[interface.link];
            for (at, end) in link.endpoints.iter().enumerate() {
                if std::ptr::eq(&raw const self.nodes[end.node], self.node) {
                    continue;
                }
                for ipv6 in [false, true] {
                    let Some(address) = self.address(index, at, ipv6) else {
                        continue;
                    };
                    let family = usize::from(ipv6);
                    if known[family].insert(end.node) {
                        seen.entry(end.node).or_insert(first)[family] = Some(address);
                    }
                }
            }
        }
        let differ = seen
            .into_iter()
            .filter(|(_, addresses)| *addresses != first);
        differ
            .map(|(from, addresses)| {
                let addresses = addresses.into_iter().flatten().collect();
                (self.nodes[from].name.as_str(), addresses)
            })
            .collect()
    }

    /// The address of its interface `index` as the end at position `from` of the same link sees it.
    fn address(&self, index: usize, from: usize, ipv6: bool) -> Option<IpAddr> {
        let interface = &self.node.interfaces[index];
        let all = match &self.links[interface.link].medium {
            // From outside, an inner node is reached under its published address.
            Medium::Nat(nat) if from == 0 => {
                nat.published.get(interface.endpoint.checked_sub(1)?)?
            }
            _ => &interface.addresses,
        };
        all.iter().map(IpNet::addr).find(|a| a.is_ipv6() == ipv6)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, plan};
    use crate::facts::Facts;
    use crate::spec::Lab;

    fn planned(topology: &str) -> Plan {
        let lab = Lab::parse(&format!("name: t\ntopology:\n{topology}")).expect("a readable lab");
        let facts = Facts {
            tools: [("nft".to_string(), "1".to_string())].into(),
            ..Facts::default()
        };
        plan(&lab, &facts).unwrap_or_else(|e| panic!("{}", e.render("t")))
    }

    fn known(plan: &Plan, from: &str, to: &str) -> Vec<String> {
        let addresses = plan.names.lookup(from, to).iter();
        addresses.map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_leads_to_the_address_on_the_first_common_link() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}}
  links:
    - endpoints: ['a:eth0', 'b:eth0']
    - {type: bridge, endpoints: ['a:eth1', 'b:eth1', 'c:eth1']}",
        );
        assert_eq!(known(&plan, "a", "b"), ["198.18.0.2", "fd4c:61:62::2"]);
        assert_eq!(known(&plan, "c", "b"), ["198.18.1.2", "fd4c:61:62:1::2"]);
        assert_eq!(known(&plan, "c", "a"), ["198.18.1.1", "fd4c:61:62:1::1"]);
        assert_eq!(known(&plan, "a", "c"), ["198.18.1.3", "fd4c:61:62:1::3"]);
        // Itself by its first, as others without a common link do.
        assert_eq!(known(&plan, "b", "b"), ["198.18.0.2", "fd4c:61:62::2"]);
        assert_eq!(plan.names.seen_by.keys().collect::<Vec<_>>(), ["c"]);
        for from in ["a", "b", "c"] {
            for to in ["a", "b", "c"].into_iter().filter(|to| *to != from) {
                let reach = plan.reach(from, to, false).unwrap();
                assert_eq!(known(&plan, from, to)[0], reach.address.to_string());
            }
        }
    }

    #[test]
    fn nodes_that_no_link_joins_know_each_other_by_their_first_address() {
        let plan = planned(
            "  nodes: {a: {kind: native}, r: {kind: native}, b: {kind: native}, alone: {kind: native}}
  links:
    - endpoints: ['a:eth0', 'r:eth0']
    - endpoints: ['r:eth1', 'b:eth0']",
        );
        assert_eq!(known(&plan, "a", "b"), ["198.18.1.2", "fd4c:61:62:1::2"]);
        assert_eq!(known(&plan, "b", "r"), ["198.18.1.1", "fd4c:61:62:1::1"]);
        assert!(known(&plan, "a", "alone").is_empty());
        let hosts = plan.names.hosts("alone");
        assert!(hosts.contains("127.0.1.1\talone\n"), "{hosts}");
        assert!(hosts.contains("198.18.0.1\ta\n"), "{hosts}");
    }

    #[test]
    fn families_are_looked_for_each_by_itself() {
        // Below 1280 bytes there is no IPv6, so its first common link is the second.
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links:
    - {endpoints: ['a:eth0', 'b:eth0'], mtu: 1000}
    - endpoints: ['a:eth1', 'b:eth1']",
        );
        assert_eq!(known(&plan, "a", "b"), ["198.18.0.2", "fd4c:61:62::2"]);
    }

    #[test]
    fn from_outside_a_nat_names_lead_to_published_addresses() {
        let plan = planned(
            "  nodes: {out: {kind: native}, a: {kind: native}, b: {kind: native}}
  links: [{type: nat, endpoints: ['out:eth0', 'a:eth0', 'b:eth0']}]",
        );
        for ipv6 in [false, true] {
            let reach = |from, to| plan.reach(from, to, ipv6).unwrap().address.to_string();
            for (from, to) in [("out", "a"), ("out", "b"), ("a", "b"), ("b", "out")] {
                assert_eq!(known(&plan, from, to)[usize::from(ipv6)], reach(from, to));
            }
        }
        assert_ne!(known(&plan, "out", "a"), known(&plan, "b", "a"));
    }

    #[test]
    fn a_hosts_file_begins_with_the_node_itself() {
        let plan = planned(
            "  nodes: {b: {kind: native}, a: {kind: native}}
  links: [{endpoints: ['b:eth0', 'a:eth0']}]",
        );
        let hosts = plan.names.hosts("b");
        let lines: Vec<&str> = hosts.lines().collect();
        let expected = [
            "# Written by latlab: the nodes of the lab as `b` sees them.",
            "127.0.0.1\tlocalhost",
            "::1\tlocalhost ip6-localhost ip6-loopback",
            "198.18.0.1\tb",
            "fd4c:61:62::1\tb",
            "198.18.0.2\ta",
            "fd4c:61:62::2\ta",
        ];
        assert_eq!(lines, expected);
    }
}
