//! From what is configured to what is open: one place where each kind of port and link is made.

mod failed;
mod streams;
mod tunnels;
mod veths;

use std::net::SocketAddr;
use std::sync::Arc;

use latlab_model::overlay::{Interface, InterfaceKind, Link, LinkKind, Network};

use super::keeper::Place;
use crate::endpoints::{Counters, PortId, Receive, Transmit};
use crate::kernel::{KernelPath, PortKind};
use crate::links::direct;
use crate::ports::{tap, vhost_user};
pub use failed::Failed;
pub(super) use tunnels::TunnelKey;
use tunnels::Tunnels;
use veths::Veths;

/// What every port is made from.
pub(super) struct Way<'a> {
    pub name: &'a str,
    pub id: PortId,
    pub counters: Arc<Counters>,
    /// How many dispatchers there are: a tunnel has a socket for each.
    pub dispatchers: u16,
    /// The network of an interface or of a direct link.
    pub network: Option<&'a Network>,
    /// Whether there are containers in the network.
    pub in_kernel: bool,
}

impl Way<'_> {
    fn vni(&self) -> u32 {
        self.network.map_or(0, |network| network.vni)
    }
}

/// A port that was made.
pub(super) struct Made {
    pub receivers: Vec<Box<dyn Receive>>,
    pub sender: Box<dyn Transmit>,
    pub opened: Opened,
}

/// What stays open with a port, beside its two halves.
pub(super) enum Opened {
    /// Nothing.
    Halves,
    /// The connection to a virtual machine's monitor.
    VhostUser(vhost_user::VhostUser),
    /// An interface in the kernel's path.
    InKernel(crate::kernel::Port),
    /// A share of the sockets of this tunnel end. The receiving halves are with one of its links, and
    /// go to another when that one goes.
    Tunnel(TunnelKey),
}

/// Makes ports, and keeps what several of them share.
pub(super) struct Opener {
    tunnels: Tunnels,
    veths: Veths,
}

impl Opener {
    /// `name` tells this daemon from others of its namespace, and is the same when it is restarted.
    pub fn new(name: &str) -> Opener {
        Opener {
            tunnels: Tunnels::new(),
            veths: Veths::new(name),
        }
    }

    /// Opens an interface.
    pub fn interface(&mut self, way: &Way<'_>, spec: &Interface) -> Result<Made, Failed> {
        match &spec.kind {
            InterfaceKind::Tap {
                device,
                netns,
                queues,
            } => {
                let spec = tap::Spec {
                    id: way.id,
                    device,
                    netns: netns.as_deref(),
                    queues: *queues,
                    mtu: spec.mtu,
                    counters: Arc::clone(&way.counters),
                };
                let hint = "look whether the device is there and in use: `ip -d link`";
                let (receivers, sender) =
                    tap::open(&spec).map_err(|error| Failed::new(way, &error, hint))?;
                Ok(Made {
                    receivers: boxed(receivers),
                    sender: Box::new(sender),
                    opened: Opened::Halves,
                })
            }
            InterfaceKind::VhostUser { .. } => vhost_user(way, spec),
            InterfaceKind::Veth { device, netns } => {
                self.veths.open(way, spec, device, netns.as_deref())
            }
        }
    }

    /// Opens a link.
    pub fn link(&mut self, way: &Way<'_>, link: &Link) -> Result<Made, Failed> {
        match &link.kind {
            LinkKind::Direct {
                device,
                netns: None,
                ..
            } if way.in_kernel => self.veths.open_wire(way, device),
            LinkKind::Direct { device, netns, .. } => {
                let spec = direct::Spec {
                    id: way.id,
                    device,
                    netns: netns.as_deref(),
                    network: way.vni(),
                    counters: Arc::clone(&way.counters),
                };
                let hint = "name an interface that is there: `ip link`";
                let (receiver, sender) =
                    direct::open(&spec).map_err(|error| Failed::new(way, &error, hint))?;
                Ok(Made {
                    receivers: vec![Box::new(receiver)],
                    sender: Box::new(sender),
                    opened: Opened::Halves,
                })
            }
            LinkKind::Vxlan { .. } | LinkKind::Udp { .. } | LinkKind::Sealed { .. } => {
                self.tunnels.open(way, &link.kind)
            }
            LinkKind::Connect { .. } | LinkKind::Listen { .. } => {
                streams::open(way, &link.kind, self.tunnels.origin())
            }
        }
    }

    /// The link whose place a new one would take: to the same host, from the same tunnel end.
    pub fn holder(&self, link: &Link) -> Option<PortId> {
        self.tunnels.holder(&link.kind)
    }

    /// A link takes the place of the one that has its number.
    pub fn inherit(&self, id: PortId, opened: &Opened) {
        if let Opened::Tunnel(key) = opened {
            self.tunnels.inherit(id, key);
        }
    }

    /// Closes what stayed open with a port; one that has an heir leaves its number to it.
    pub fn close(&mut self, id: PortId, opened: Opened, has_heir: bool) {
        match opened {
            Opened::Halves => {}
            Opened::VhostUser(port) => drop(port),
            Opened::InKernel(port) => self.veths.close(&port),
            Opened::Tunnel(key) => self.tunnels.close(id, &key, has_heir),
        }
    }

    /// The kernel's path, once something has opened it.
    pub fn kernel_path(&self) -> Option<Arc<KernelPath>> {
        self.veths.path()
    }

    /// Datagrams from hosts that no link leads to.
    pub fn strangers(&self) -> u64 {
        self.tunnels.strangers()
    }
}

fn vhost_user(way: &Way<'_>, spec: &Interface) -> Result<Made, Failed> {
    let InterfaceKind::VhostUser {
        socket,
        client,
        queues,
        switches,
    } = &spec.kind
    else {
        unreachable!("asked for a virtual machine's port only");
    };
    let settings = vhost_user::Settings {
        id: way.id,
        socket: socket.clone(),
        client: *client,
        queues: *queues,
        mtu: spec.mtu,
        switches: *switches,
    };
    let hint = "look who else listens at the socket, or give another path";
    let port = vhost_user::VhostUser::open(settings, Arc::clone(&way.counters))
        .map_err(|error| Failed::new(way, &error, hint))?;
    let receivers = (0..usize::from(*queues)).map(|pair| port.receiver(pair));
    Ok(Made {
        receivers: boxed(receivers.collect()),
        sender: Box::new(port.sender()),
        opened: Opened::VhostUser(port),
    })
}

impl Opened {
    /// Where the kernel finds it, if it can take frames there by itself.
    pub fn place(&self, link: Option<&Link>) -> Option<Place> {
        match (self, link.map(|link| &link.kind)) {
            (Opened::InKernel(port), _) => Some(match port.kind {
                PortKind::Container => Place::Container {
                    device: port.device,
                },
                _ => Place::Direct {
                    device: port.device,
                },
            }),
            (
                _,
                Some(LinkKind::Vxlan {
                    remote: SocketAddr::V4(remote),
                    ..
                }),
            ) => match self {
                Opened::Tunnel(key) => key.local_v4().map(|local| Place::Tunnel {
                    remote: *remote,
                    local,
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Puts what `set interface` changed into effect.
    pub fn settle(&self, interface: &Interface) {
        if let (Opened::VhostUser(port), InterfaceKind::VhostUser { switches, .. }) =
            (self, &interface.kind)
        {
            port.set(*switches);
        }
    }
}

fn boxed<R: Receive + 'static>(receivers: Vec<R>) -> Vec<Box<dyn Receive>> {
    let boxed = receivers
        .into_iter()
        .map(|receive| Box::new(receive) as Box<dyn Receive>);
    boxed.collect()
}

/// Makes `old` have what `set interface` may change in it, as it is in `new`.
pub(super) fn take_settings(old: &mut InterfaceKind, new: &InterfaceKind) {
    if let (
        InterfaceKind::VhostUser { switches, .. },
        InterfaceKind::VhostUser {
            switches: wanted, ..
        },
    ) = (old, new)
    {
        *switches = *wanted;
    }
}
