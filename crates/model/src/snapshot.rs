//! The description of a saved node.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::kinds::{Mac, NodeKind};
use crate::plan::{InterfacePlan, Names, NodePlan, Route, hash};

/// `snapshot.json` of a directory that holds a saved node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`Snapshot::FORMAT`], or [`Snapshot::FORMER`].
    pub format: String,
    pub lab: String,
    #[serde(flatten)]
    pub saved_as: SavedAs,
    pub kind: NodeKind,
    /// RFC 3339, UTC.
    pub saved: String,
    /// The machine that the node ran on, in words: it goes on only where they are the same.
    pub machine: String,
    pub files: Vec<SavedFile>,
    /// How long the node stood still to be saved, in nanoseconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ns: Option<u64>,
}

/// The identity of a node when it was saved. A VM has it until its agent changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAs {
    pub node: String,
    /// Hardware addresses of its network cards, in their order.
    pub macs: Vec<Mac>,
    /// None in [`Snapshot::FORMER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<SavedNetwork>,
}

/// The network of a guest as it was told of it. It does not notice when the lab has another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedNetwork {
    pub interfaces: Vec<SavedInterface>,
    /// Digest of its hosts file, in hexadecimal digits.
    pub hosts: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedInterface {
    pub name: String,
    pub mtu: u32,
    pub addresses: Vec<IpNet>,
    pub routes: Vec<Route>,
}

impl SavedAs {
    pub fn of(node: &NodePlan, names: &Names) -> SavedAs {
        let hosts = hash(&names.hosts(&node.name));
        SavedAs {
            node: node.name.clone(),
            macs: node.interfaces.iter().map(|i| i.mac).collect(),
            network: Some(SavedNetwork {
                interfaces: node.interfaces.iter().map(SavedInterface::of).collect(),
                hosts: format!("{hosts:016x}"),
            }),
        }
    }

    /// Whether a guest of one identity has the other one's name and addresses of cards: it is no copy then.
    pub fn is_same_guest(&self, other: &SavedAs) -> bool {
        (&self.node, &self.macs) == (&other.node, &other.macs)
    }
}

impl SavedNetwork {
    /// The first difference between two networks of a guest, in words.
    pub fn difference(&self, now: &SavedNetwork) -> Option<String> {
        let count = self.interfaces.len().max(now.interfaces.len());
        let mut pairs = (0..count).map(|at| (self.interfaces.get(at), now.interfaces.get(at)));
        if let Some((then, now)) = pairs.find(|(then, now)| then != now) {
            let words =
                |it: Option<&SavedInterface>| it.map_or("nothing".into(), ToString::to_string);
            let (then, now) = (words(then), words(now));
            return Some(format!("`{then}` then, `{now}` now"));
        }
        let is_other = self.hosts != now.hosts;
        is_other.then(|| "the lab's nodes have other names or addresses now".to_owned())
    }
}

impl SavedInterface {
    fn of(interface: &InterfacePlan) -> SavedInterface {
        SavedInterface {
            name: interface.name.clone(),
            mtu: interface.mtu,
            addresses: interface.addresses.clone(),
            routes: interface.routes.clone(),
        }
    }
}

impl fmt::Display for SavedInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mtu {}", self.name, self.mtu)?;
        for address in &self.addresses {
            write!(f, " {address}")?;
        }
        for route in &self.routes {
            write!(f, " route {} via {}", route.to, route.via)?;
        }
        Ok(())
    }
}

/// A file beside the description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    pub name: String,
    pub bytes: u64,
    /// Digest of its content, in hexadecimal digits.
    pub sha256: String,
}

impl Snapshot {
    /// Name and version of this document's shape.
    pub const FORMAT: &'static str = "latlab.snapshot/3";
    /// The shape before it, which tells nothing of the network.
    pub const FORMER: &'static str = "latlab.snapshot/2";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_differ_in_an_interface_or_the_hosts_file() {
        let interface = |address: &str, routes: &[(&str, &str)]| SavedInterface {
            name: "eth0".into(),
            mtu: 1500,
            addresses: vec![address.parse().unwrap()],
            routes: routes
                .iter()
                .map(|(to, via)| Route {
                    to: to.parse().unwrap(),
                    via: via.parse().unwrap(),
                })
                .collect(),
        };
        let of = |interfaces: &[SavedInterface], hosts: &str| SavedNetwork {
            interfaces: interfaces.to_vec(),
            hosts: hosts.into(),
        };
        let first = interface("10.0.0.1/24", &[]);
        let then = of(std::slice::from_ref(&first), "a");
        let differs = |now: &SavedNetwork| then.difference(now);
        assert_eq!(differs(&then), None);
        let routed = interface("10.0.0.1/24", &[("10.1.0.0/16", "10.0.0.9")]);
        assert_eq!(
            differs(&of(&[routed], "a")).unwrap(),
            "`eth0 mtu 1500 10.0.0.1/24` then, `eth0 mtu 1500 10.0.0.1/24 route 10.1.0.0/16 via 10.0.0.9` now"
        );
        let other = interface("10.0.0.2/24", &[]);
        let said = differs(&of(&[other], "a")).unwrap();
        assert!(said.ends_with("`eth0 mtu 1500 10.0.0.2/24` now"), "{said}");
        let said = differs(&of(&[], "a")).unwrap();
        assert_eq!(said, "`eth0 mtu 1500 10.0.0.1/24` then, `nothing` now");
        assert!(differs(&of(&[first], "b")).unwrap().contains("other names"));
    }
}
