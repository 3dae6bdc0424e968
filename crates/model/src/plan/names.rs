//! Names of nodes: the addresses under which each node of a lab knows the others.
//!
//! Most nodes are seen alike by all others, so the document holds each node
//! once, and beside it only the pairs that see another address. Its size grows with the nodes, not with the
//! pairs of nodes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The first lines of every node's hosts file, as distributions have them.
const LOCAL: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Addresses by name of node: at most one of each family, IPv4 first.
pub type Addresses = BTreeMap<String, Vec<IpAddr>>;

/// The names of a lab's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// How nodes are seen: by the first address of each family.
    #[serde(default)]
    pub nodes: Addresses,
    /// How one node sees others, where that differs: an earlier address is not on a common link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen_by: BTreeMap<String, Addresses>,
}

impl Names {
    /// The addresses under which node `from` knows node `to`.
    pub fn lookup(&self, from: &str, to: &str) -> &[IpAddr] {
        let own = self.seen_by.get(from).and_then(|others| others.get(to));
        own.or_else(|| self.nodes.get(to))
            .map_or(&[], Vec::as_slice)
    }

    /// The hosts file of a node (hosts(5)). A node without an address is at least itself.
    pub fn hosts(&self, node: &str) -> String {
        let mut text =
            format!("# Written by latlab: the nodes of the lab as `{node}` sees them.\n");
        text += LOCAL;
        if self.lookup(node, node).is_empty() {
            // As Debian does for a host without a lasting address.
            let _ = writeln!(text, "127.0.1.1\t{node}");
        }
        let others = self.nodes.keys().filter(|name| *name != node);
        for name in std::iter::once(node).chain(others.map(String::as_str)) {
            for address in self.lookup(node, name) {
                let _ = writeln!(text, "{address}\t{name}");
            }
        }
        text
    }
}
