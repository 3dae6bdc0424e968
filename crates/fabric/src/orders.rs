//! From the state of a fabric to lines of the control language of one host's daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use latlab_model::overlay::{self, Link, LinkKind, MAX_ADDRESSES, Overlay, PortName};
use latlab_model::spec::Mac;

use crate::keys::{Address, Carrier, Host, LINK_PREFIX};
use crate::state::State;

/// The host that an agent is of.
#[derive(Debug, Clone)]
pub struct Own {
    pub name: String,
    pub host: Host,
    /// The file with the private key, where links are sealed. The daemon reads it.
    pub key: Option<PathBuf>,
}

/// A line of the control language that moves addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub line: String,
    pub addresses: Vec<Address>,
}

impl Own {
    /// The lines that make the daemon's networks and links to other hosts those of the fabric. Its interfaces, routes and
    /// other links are left alone. Errors: a network of the daemon with another number.
    pub fn configure(&self, state: &State, current: &Overlay) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let wanted = self.links(state);
        let ours = current
            .links
            .iter()
            .filter(|(name, _)| name.starts_with(LINK_PREFIX));
        for (name, link) in ours {
            if wanted.get(name) != Some(link) {
                lines.push(format!("delete link {name}"));
            }
        }
        for (name, network) in &state.networks {
            match current.networks.get(name) {
                Some(known) if known.vni == network.vni => {}
                Some(known) => {
                    return Err(format!(
                        "network `{name}` has number {} in the fabric, and {} in the daemon",
                        network.vni, known.vni
                    ));
                }
                None => {
                    let network = overlay::Network::new(network.vni);
                    lines.push(format!("add network {name} {network}"));
                }
            }
        }
        for (name, link) in &wanted {
            if current.links.get(name) != Some(link) {
                lines.push(format!("add link {name} {link}"));
            }
        }
        Ok(lines)
    }

    /// The links to all other hosts.
    fn links(&self, state: &State) -> BTreeMap<String, Link> {
        let others = state.hosts.iter().filter(|(name, _)| **name != self.name);
        let links = others.filter_map(|(name, host)| {
            let link = Link {
                kind: self.link(host)?,
                networks: BTreeSet::new(),
            };
            Some((link_to(name), link))
        });
        links.collect()
    }

    /// None: the two hosts do not carry frames alike.
    fn link(&self, to: &Host) -> Option<LinkKind> {
        let (remote, netns) = (to.address, None);
        let local: Option<SocketAddr> = Some(self.host.address);
        if remote.is_ipv4() != self.host.address.is_ipv4() {
            return None;
        }
        match (&self.host.carrier, &to.carrier) {
            (Carrier::Udp, Carrier::Udp) => Some(LinkKind::Udp {
                remote,
                local,
                netns,
            }),
            (Carrier::Vxlan, Carrier::Vxlan) => Some(LinkKind::Vxlan {
                remote,
                local,
                netns,
            }),
            (Carrier::Sealed { .. }, Carrier::Sealed { key: peer }) => Some(LinkKind::Sealed {
                remote,
                local,
                netns,
                key: self.key.clone()?,
                peer: peer.to_lowercase(),
            }),
            _ => None,
        }
    }

    /// The lines that move these addresses to their places. Addresses that go to one port share a line, whose revision is
    /// the highest of theirs: a later move of any of them has a higher one still.
    #[must_use]
    pub fn moves<'a>(
        &self,
        state: &State,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Vec<Order> {
        let mut ports: BTreeMap<(&str, PortName), Vec<(Mac, u64)>> = BTreeMap::new();
        for address @ (network, mac) in addresses {
            if let Some((place, revision)) = state.places.get(address) {
                let port = match place.host == self.name {
                    true => PortName::Interface(place.interface.clone()),
                    false => PortName::Link(link_to(&place.host)),
                };
                let there = ports.entry((network, port)).or_default();
                there.push((*mac, *revision));
            }
        }
        let mut orders = Vec::new();
        for ((network, port), moved) in ports {
            for moved in moved.chunks(MAX_ADDRESSES) {
                let revision = moved.iter().map(|(_, revision)| revision).max();
                let revision = revision.copied().unwrap_or_default();
                let macs = moved.iter().map(|(mac, _)| *mac);
                orders.push(Order {
                    line: move_line(macs, &port, network, revision),
                    addresses: moved
                        .iter()
                        .map(|(mac, _)| (network.to_string(), *mac))
                        .collect(),
                });
            }
        }
        orders
    }
}

/// The line that moves addresses to a port.
pub(crate) fn move_line(
    macs: impl Iterator<Item = Mac>,
    to: &PortName,
    network: &str,
    revision: u64,
) -> String {
    let macs: Vec<String> = macs.map(|mac| mac.to_string()).collect();
    let macs = macs.join(" ");
    format!("move {macs} to {to} network {network} revision {revision}")
}

#[must_use]
pub fn link_to(host: &str) -> String {
    format!("{LINK_PREFIX}{host}")
}

/// The revision of each moved address, from the daemon's `list moves`: `NETWORK MAC link|interface NAME revision N`.
#[must_use]
pub fn known_revisions(lines: &[String]) -> BTreeMap<Address, u64> {
    let known = lines.iter().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "revision")?;
        let mac = Mac::parse(words.get(1)?)?;
        let revision = words.get(at + 1)?.parse().ok()?;
        Some(((words.first()?.to_string(), mac), revision))
    });
    known.collect()
}
