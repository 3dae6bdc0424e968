//! Changes to the document, and refusals.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::document::{
    Interface, InterfaceKind, Link, LinkKind, Network, Overlay, PortName, Route,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Network(String, Network),
    Interface(String, Interface),
    Link(String, Link),
    Route(Route),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemName {
    Network(String),
    Interface(String),
    Link(String),
    Route(Route),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub message: String,
    pub hint: String,
}

pub(super) fn refuse<T>(message: impl Into<String>, hint: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        message: message.into(),
        hint: hint.into(),
    })
}

impl Overlay {
    /// Adds an item. Errors: a name that is taken, a reference to what is not there, or a resource that another item
    /// has; nothing is changed then.
    pub fn add(&mut self, item: Item) -> Result<(), Refusal> {
        match item {
            Item::Network(name, network) => self.add_network(name, network),
            Item::Interface(name, interface) => self.add_interface(name, interface),
            Item::Link(name, link) => self.add_link(name, link),
            Item::Route(route) => self.add_route(route),
        }
    }

    /// Deletes an item. Errors: a missing object, or one still in use.
    pub fn delete(&mut self, item: &ItemName) -> Result<(), Refusal> {
        match item {
            ItemName::Network(name) => self.delete_network(name),
            ItemName::Interface(name) => {
                self.must_have_interface(name)?;
                self.unused_port(&PortName::Interface(name.clone()))?;
                self.interfaces.remove(name);
                Ok(())
            }
            ItemName::Link(name) => {
                self.must_have_link(name)?;
                self.unused_port(&PortName::Link(name.clone()))?;
                self.links.remove(name);
                Ok(())
            }
            ItemName::Route(route) => {
                if self.routes.remove(route) {
                    Ok(())
                } else {
                    refuse("there is no such route", "`list routes` shows them")
                }
            }
        }
    }

    /// The network's name and itself, by its number.
    #[must_use]
    pub fn network_of(&self, vni: u32) -> Option<(&str, &Network)> {
        let mut networks = self.networks.iter();
        let found = networks.find(|(_, network)| network.vni == vni)?;
        Some((found.0, found.1))
    }

    fn add_network(&mut self, name: String, network: Network) -> Result<(), Refusal> {
        if self.networks.contains_key(&name) {
            return refuse(
                format!("there is a network `{name}` already"),
                "delete it first",
            );
        }
        if let Some((other, _)) = self.network_of(network.vni) {
            return refuse(
                format!("vni {} is the network `{other}`", network.vni),
                "give the network a number of its own",
            );
        }
        self.networks.insert(name, network);
        Ok(())
    }

    fn delete_network(&mut self, name: &str) -> Result<(), Refusal> {
        self.must_have_network(name)?;
        let interface = self.interfaces.iter().find(|(_, i)| i.network == name);
        if let Some((user, _)) = interface {
            return refuse(
                format!("network `{name}` still has the interface `{user}`"),
                "delete what is in it first",
            );
        }
        let on_link = self.links.iter().find(|(_, link)| {
            link.networks.contains(name)
                || matches!(&link.kind, LinkKind::Direct { network, .. } if network == name)
        });
        if let Some((user, _)) = on_link {
            return refuse(
                format!("network `{name}` still is on the link `{user}`"),
                "delete the link first",
            );
        }
        if self.routes.iter().any(|route| route.network == name) {
            return refuse(
                format!("network `{name}` still has routes"),
                "delete them first; `list routes` shows them",
            );
        }
        self.networks.remove(name);
        Ok(())
    }

    fn add_interface(&mut self, name: String, interface: Interface) -> Result<(), Refusal> {
        self.free_name(&name)?;
        self.must_have_network(&interface.network)?;
        for (other, known) in &self.interfaces {
            if known.kind.claims() == interface.kind.claims() {
                return refuse(
                    format!("interface `{other}` has {} already", known.kind.claims()),
                    "give it one of its own",
                );
            }
            if known.network != interface.network {
                continue;
            }
            if let Some(mac) = known.macs.intersection(&interface.macs).next() {
                return refuse(
                    format!("{mac} is bound to the interface `{other}`"),
                    "an address is bound to one interface of a network",
                );
            }
        }
        self.interfaces.insert(name, interface);
        Ok(())
    }

    fn add_link(&mut self, name: String, link: Link) -> Result<(), Refusal> {
        self.free_name(&name)?;
        if let LinkKind::Direct { network, .. } = &link.kind {
            self.must_have_network(network)?;
        }
        for network in &link.networks {
            self.must_have_network(network)?;
        }
        let same = self
            .links
            .iter()
            .find(|(_, known)| known.kind.claims() == link.kind.claims());
        if let Some((other, known)) = same {
            return refuse(
                format!("link `{other}` is {} already", known.kind.claims()),
                "one link leads there; routes may share it",
            );
        }
        self.links.insert(name, link);
        Ok(())
    }

    fn add_route(&mut self, route: Route) -> Result<(), Refusal> {
        self.must_have_network(&route.network)?;
        for port in std::iter::once(&route.to).chain(&route.from) {
            match port {
                PortName::Interface(name) => {
                    let interface = self.must_have_interface(name)?;
                    if interface.network != route.network {
                        return refuse(
                            format!(
                                "interface `{name}` is in the network `{}`, the route in `{}`",
                                interface.network, route.network
                            ),
                            "nothing passes from one network to another",
                        );
                    }
                }
                PortName::Link(name) => {
                    let link = self.must_have_link(name)?;
                    if let LinkKind::Direct { network, .. } = &link.kind {
                        if *network != route.network {
                            return refuse(
                                format!("link `{name}` carries the network `{network}` only"),
                                "nothing passes from one network to another",
                            );
                        }
                    }
                    if !link.carries(&route.network) {
                        return refuse(
                            format!(
                                "link `{name}` does not carry the network `{}`",
                                route.network
                            ),
                            "name it among the link's `networks`",
                        );
                    }
                }
            }
        }
        if route.from.as_ref() == Some(&route.to) {
            return refuse(
                format!("the route leads back to `{}`", route.to.name()),
                "a frame never leaves where it came in",
            );
        }
        if self.routes.insert(route) {
            Ok(())
        } else {
            refuse("there is such a route already", "`list routes` shows them")
        }
    }

    fn free_name(&self, name: &str) -> Result<(), Refusal> {
        let kind = if self.interfaces.contains_key(name) {
            "an interface"
        } else if self.links.contains_key(name) {
            "a link"
        } else {
            return Ok(());
        };
        refuse(
            format!("there is {kind} `{name}` already"),
            "interfaces and links share their names; choose another",
        )
    }

    fn unused_port(&self, port: &PortName) -> Result<(), Refusal> {
        let used = |route: &&Route| route.to == *port || route.from.as_ref() == Some(port);
        match self.routes.iter().find(used) {
            None => Ok(()),
            Some(route) => refuse(
                format!("`{}` is still used: route {route}", port.name()),
                "delete the route first; between `begin` and `commit` both happen at once",
            ),
        }
    }

    pub(super) fn must_have_network(&self, name: &str) -> Result<&Network, Refusal> {
        find("network", name, &self.networks)
    }

    pub(super) fn must_have_interface(&self, name: &str) -> Result<&Interface, Refusal> {
        find("interface", name, &self.interfaces)
    }

    pub(super) fn must_have_link(&self, name: &str) -> Result<&Link, Refusal> {
        find("link", name, &self.links)
    }
}

/// The object, or a refusal with the name that was probably meant.
fn find<'a, T>(kind: &str, name: &str, all: &'a BTreeMap<String, T>) -> Result<&'a T, Refusal> {
    let Some(found) = all.get(name) else {
        let names = all.keys().map(String::as_str);
        let hint = match crate::diagnostic::nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`list {kind}s` shows those that there are"),
        };
        return refuse(format!("there is no {kind} `{name}`"), hint);
    };
    Ok(found)
}

impl InterfaceKind {
    /// The part that only one interface can have, in words.
    fn claims(&self) -> String {
        match self {
            InterfaceKind::VhostUser { socket, .. } => format!("the socket {}", socket.display()),
            InterfaceKind::Tap { device, netns, .. } | InterfaceKind::Veth { device, netns } => {
                format!("the device {device}{}", within(netns))
            }
        }
    }
}

fn within(netns: &Option<PathBuf>) -> String {
    match netns {
        None => String::new(),
        Some(path) => format!(" in {}", path.display()),
    }
}

fn from(local: Option<SocketAddr>) -> String {
    local.map_or_else(String::new, |local| format!("from {local} "))
}

impl LinkKind {
    /// The part that tells a link from every other, in words.
    fn claims(&self) -> String {
        match self {
            LinkKind::Vxlan {
                remote,
                local,
                netns,
            } => format!("VXLAN {}to {remote}{}", from(*local), within(netns)),
            LinkKind::Udp {
                remote,
                local,
                netns,
            }
            | LinkKind::Sealed {
                remote,
                local,
                netns,
                ..
            } => format!("UDP {}to {remote}{}", from(*local), within(netns)),
            LinkKind::Connect { remote, .. } => format!("TCP to {remote}"),
            LinkKind::Listen { local, .. } => format!("TCP at {local}"),
            LinkKind::Direct { device, netns, .. } => {
                format!("the device {device}{}", within(netns))
            }
        }
    }
}
