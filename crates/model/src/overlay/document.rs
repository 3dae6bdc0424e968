//! The document and what may be changed in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::spec::Mac;
use crate::units::{CpuList, Nanos};

/// A whole overlay, as one host sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// By name.
    pub networks: BTreeMap<String, Network>,
    /// By name; interfaces and links share one name space.
    pub interfaces: BTreeMap<String, Interface>,
    /// By name.
    pub links: BTreeMap<String, Link>,
    /// In no order: the most specific wins (see [`Route`]).
    pub routes: BTreeSet<Route>,
    /// How frames are dispatched.
    pub dispatch: Dispatch,
}

/// One Ethernet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its number on the wire, 24 bits (RFC 7348, section 5).
    pub vni: u32,
    /// Whether it learns where addresses are from the frames they send.
    pub learning: bool,
    /// Most broadcast, multicast and unknown frames that one port may send, per second.
    pub flood: u32,
    /// How long a learned address is believed after its last frame.
    pub age: Nanos,
}

impl Network {
    /// A learning network, as a switch would be.
    #[must_use]
    pub fn new(vni: u32) -> Network {
        Network {
            vni,
            learning: true,
            flood: 10_000,
            age: Nanos(300_000_000_000),
        }
    }
}

/// A place where a guest is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The network that it is in.
    pub network: String,
    /// How the guest is reached.
    pub kind: InterfaceKind,
    /// Addresses that it may use, and nobody else in the network; empty: any that is not bound.
    pub macs: BTreeSet<Mac>,
    /// Largest packet that the guest is told of, without the Ethernet header.
    pub mtu: u16,
    /// How it is dispatched, when not as all are.
    pub mode: Option<Mode>,
}

/// How a guest is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceKind {
    /// Rings shared with a virtual machine, over a socket of the vhost-user protocol.
    VhostUser {
        /// The socket.
        socket: PathBuf,
        /// Whether the daemon connects (and reconnects) to it instead of listening.
        client: bool,
        /// Pairs of queues at most.
        queues: u16,
        /// When the guest is interrupted.
        interrupts: Interrupts,
        /// Whether frames are copied once, from ring to ring, or through a buffer as in the paper's
        /// baseline (Cui 2013, 4.3: cut-through forwarding).
        cut_through: bool,
    },
    /// A tap that the daemon makes or takes.
    Tap {
        /// Its name.
        device: String,
        /// The network namespace where it is put.
        netns: Option<PathBuf>,
        /// Queues, at most one a dispatcher.
        queues: u16,
    },
    /// A container's veth: frames stay in the kernel (BPF), misses come to the daemon.
    Veth {
        /// The host's end of the pair.
        device: String,
        /// The network namespace where that end is.
        netns: Option<PathBuf>,
    },
}

/// When a guest is interrupted for what it receives (Cui 2013, 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interrupts {
    /// Once, when all frames of a batch are there.
    #[default]
    Batch,
    /// After the first frame of a batch, and again at its end if the guest asks for it: early, and
    /// yet nothing is announced that is not there.
    Early,
    /// Before anything is there, as in the paper. A guest's kernel may find nothing and, after many
    /// such, disable the line: for experiments.
    BeforeData,
}

/// The way to another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What carries the frames.
    pub kind: LinkKind,
}

/// What carries the frames to another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// UDP in VXLAN's format (RFC 7348).
    Vxlan {
        /// The other host.
        remote: SocketAddr,
        /// This one.
        local: SocketAddr,
    },
    /// UDP in this daemon's own format: large frames stay whole, checksums stay uncomputed.
    Udp {
        /// The other host.
        remote: SocketAddr,
        /// This one.
        local: SocketAddr,
    },
    /// As `udp`, encrypted and authenticated.
    Sealed {
        /// The other host.
        remote: SocketAddr,
        /// This one.
        local: SocketAddr,
        /// File with this host's private key.
        key: PathBuf,
        /// The other host's public key, in hexadecimal.
        peer: String,
    },
    /// A TCP connection that this host opens.
    Connect {
        /// The other host.
        remote: SocketAddr,
        /// Mutual TLS.
        tls: Option<Tls>,
    },
    /// A TCP connection that the other host opens.
    Listen {
        /// Where it is awaited.
        local: SocketAddr,
        /// Mutual TLS.
        tls: Option<Tls>,
    },
    /// Raw frames of one network on an interface of this host.
    Direct {
        /// The interface.
        device: String,
        /// The namespace where that is.
        netns: Option<PathBuf>,
        /// The network.
        network: String,
    },
}

/// Certificates of a mutually authenticated connection, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// This host's certificate, with what leads to the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that the other's certificate must be signed by.
    pub authority: PathBuf,
}

/// Where frames of a network go (Cui 2013, 5.1.2; the qualifiers are VNET's).
///
/// The most specific route of those that match wins: by destination first, then by source, in the
/// order address, `not` address, `any`. Equally specific ones all get the frame, which is how it
/// reaches several ports. `none` matches what no other route does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The network.
    pub network: String,
    /// Which senders.
    pub source: Qualifier,
    /// Which receivers.
    pub destination: Qualifier,
    /// Where to.
    pub to: PortName,
    /// Only for frames that came in here. A frame from a link goes to another link only by a route
    /// that names the link it came from.
    pub from: Option<PortName>,
}

/// Which addresses a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qualifier {
    /// This one.
    Is(Mac),
    /// All but this one.
    Not(Mac),
    /// All.
    Any,
    /// All that no other route is for.
    None,
}

/// An interface or a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortName {
    /// An interface.
    Interface(String),
    /// A link.
    Link(String),
}

impl PortName {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            PortName::Interface(name) | PortName::Link(name) => name,
        }
    }
}

/// How frames are dispatched (Cui 2013, 5.1.2 and 5.1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// Dispatcher threads.
    pub dispatchers: u16,
    /// Where they run, one a processor in turn; empty: anywhere.
    pub cpus: CpuList,
    /// When they look for frames.
    pub mode: Mode,
    /// What they do when there are none.
    pub idle: Yield,
}

impl Default for Dispatch {
    fn default() -> Dispatch {
        Dispatch {
            dispatchers: 1,
            cpus: CpuList::default(),
            mode: Mode::Adaptive(Thresholds::default()),
            idle: Yield::Adaptive {
                sleep: Nanos(100_000),
                after: Nanos(50_000),
            },
        }
    }
}

/// When a port is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// When its guest says so: least delay for a single frame, nothing to do when idle.
    GuestDriven,
    /// All the time, and the guest need not say anything: most frames a second.
    VmmDriven,
    /// Either, by how much there is to do.
    Adaptive(Thresholds),
}

/// When to change between the two modes. The first bound is above the second, so that a rate
/// between them changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thresholds {
    /// By the frames that one wake-up brings, averaged: what VPP does.
    Wakeups {
        /// Poll from this many on.
        enter: u32,
        /// Stop at this many.
        leave: u32,
        /// Or after this long without a frame.
        idle: Nanos,
    },
    /// By the frames per second, counted over a window: the paper's.
    Rate {
        /// Poll from this many on.
        enter: u32,
        /// Stop at this many.
        leave: u32,
        /// How long the window is.
        window: Nanos,
    },
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds::Wakeups {
            enter: 10,
            leave: 5,
            idle: Nanos(50_000),
        }
    }
}

/// What a polling dispatcher does when there is nothing to do (Cui 2013, 5.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    /// Lets others run, and goes on at once.
    Immediate,
    /// Sleeps, at most this long.
    Timed {
        /// How long.
        sleep: Nanos,
    },
    /// The first until nothing has come for a while, then the second.
    Adaptive {
        /// How long it sleeps.
        sleep: Nanos,
        /// How long nothing must have come.
        after: Nanos,
    },
}

/// Something that can be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A network and its name.
    Network(String, Network),
    /// An interface and its name.
    Interface(String, Interface),
    /// A link and its name.
    Link(String, Link),
    /// A route.
    Route(Route),
}

/// Something that can be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemName {
    /// A network.
    Network(String),
    /// An interface.
    Interface(String),
    /// A link.
    Link(String),
    /// A route.
    Route(Route),
}

/// Why a change is not made: one line, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is wrong, naming the object.
    pub message: String,
    /// What to do.
    pub hint: String,
}

fn refuse<T>(message: impl Into<String>, hint: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        message: message.into(),
        hint: hint.into(),
    })
}

impl Overlay {
    /// Adds an item.
    ///
    /// # Errors
    ///
    /// A name that is taken, a reference to what is not there, or a resource that another item has;
    /// nothing is changed then.
    pub fn add(&mut self, item: Item) -> Result<(), Refusal> {
        match item {
            Item::Network(name, network) => self.add_network(name, network),
            Item::Interface(name, interface) => self.add_interface(name, interface),
            Item::Link(name, link) => self.add_link(name, link),
            Item::Route(route) => self.add_route(route),
        }
    }

    /// Deletes an item.
    ///
    /// # Errors
    ///
    /// What is not there, or still in use.
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
            ItemName::Route(route) => match self.routes.remove(route) {
                true => Ok(()),
                false => refuse("there is no such route", "`list routes` shows them"),
            },
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
        let on_link = self.links.iter().find(
            |(_, link)| matches!(&link.kind, LinkKind::Direct { network, .. } if network == name),
        );
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
                }
            }
        }
        if route.from.as_ref() == Some(&route.to) {
            return refuse(
                format!("the route leads back to `{}`", route.to.name()),
                "a frame never leaves where it came in",
            );
        }
        match self.routes.insert(route) {
            true => Ok(()),
            false => refuse("there is such a route already", "`list routes` shows them"),
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

    fn must_have_network(&self, name: &str) -> Result<&Network, Refusal> {
        missing(
            "network",
            name,
            self.networks.get(name),
            self.networks.keys(),
        )
    }

    fn must_have_interface(&self, name: &str) -> Result<&Interface, Refusal> {
        missing(
            "interface",
            name,
            self.interfaces.get(name),
            self.interfaces.keys(),
        )
    }

    fn must_have_link(&self, name: &str) -> Result<&Link, Refusal> {
        missing("link", name, self.links.get(name), self.links.keys())
    }
}

/// What was looked up, or that there is no such thing, with the name that was probably meant.
pub(super) fn missing<'a, T>(
    kind: &str,
    name: &str,
    found: Option<T>,
    names: impl Iterator<Item = &'a String>,
) -> Result<T, Refusal> {
    let Some(found) = found else {
        let hint = match crate::diagnostic::nearest(name, names.map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`list {kind}s` shows those that there are"),
        };
        return refuse(format!("there is no {kind} `{name}`"), hint);
    };
    Ok(found)
}

impl InterfaceKind {
    /// What only one interface can have, in words.
    fn claims(&self) -> String {
        let within = |netns: &Option<PathBuf>| match netns {
            None => String::new(),
            Some(path) => format!(" in {}", path.display()),
        };
        match self {
            InterfaceKind::VhostUser { socket, .. } => format!("the socket {}", socket.display()),
            InterfaceKind::Tap { device, netns, .. } | InterfaceKind::Veth { device, netns } => {
                format!("the device {device}{}", within(netns))
            }
        }
    }
}

impl LinkKind {
    /// What tells a link from every other, in words.
    fn claims(&self) -> String {
        match self {
            LinkKind::Vxlan { remote, local } => format!("VXLAN from {local} to {remote}"),
            LinkKind::Udp { remote, local } | LinkKind::Sealed { remote, local, .. } => {
                format!("UDP from {local} to {remote}")
            }
            LinkKind::Connect { remote, .. } => format!("TCP to {remote}"),
            LinkKind::Listen { local, .. } => format!("TCP at {local}"),
            LinkKind::Direct { device, netns, .. } => match netns {
                None => format!("the device {device}"),
                Some(path) => format!("the device {device} in {}", path.display()),
            },
        }
    }
}
