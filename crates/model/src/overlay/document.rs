//! The document: what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::spec::Mac;
use crate::units::{CpuList, Nanos};
use crate::words::vocabulary;

/// The UDP port of VXLAN (RFC 7348, section 5).
pub const VXLAN_PORT: u16 = 4789;

/// The UDP port of this daemon's own format; in the dynamic range, so it has no other owner.
pub const UDP_PORT: u16 = 51_789;

/// A whole overlay, as one host sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    pub networks: BTreeMap<String, Network>,
    /// By name; interfaces and links share one name space.
    pub interfaces: BTreeMap<String, Interface>,
    pub links: BTreeMap<String, Link>,
    /// In no order: the most specific wins (see [`Route`]).
    pub routes: BTreeSet<Route>,
    pub dispatch: Dispatch,
}

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub network: String,
    pub kind: InterfaceKind,
    /// Addresses bound to this interface of the network; empty: any that is not bound.
    pub macs: BTreeSet<Mac>,
    /// Largest packet that the guest is told of, without the Ethernet header.
    pub mtu: u16,
    /// How it is dispatched, when not as all are.
    pub mode: Option<Mode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceKind {
    /// Rings shared with a virtual machine, over a socket of the vhost-user protocol.
    VhostUser {
        socket: PathBuf,
        /// Whether the daemon connects (and reconnects) to it instead of listening.
        client: bool,
        queues: u16,
        switches: Switches,
    },
    /// A tap that the daemon makes or takes.
    Tap {
        device: String,
        netns: Option<PathBuf>,
        /// Queues, at most one a dispatcher.
        queues: u16,
    },
    /// A container's veth, or netkit of mode l2: frames stay in the kernel (BPF), misses come to the daemon.
    Veth {
        device: String,
        netns: Option<PathBuf>,
    },
}

/// How a guest's rings are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    pub interrupts: Interrupts,
    /// Whether frames are copied once, from ring to ring, or through a buffer as in the paper's
    /// baseline (Cui 2013, 4.3: cut-through forwarding).
    pub cut_through: bool,
    /// For how long the guest may not be told that a large segment that it sent has left, as `tx-usecs` of ethtool
    /// (and of virtio's own VIRTIO_NET_F_NOTF_COAL). Mostly it finds that by itself meanwhile, when it sends or
    /// receives again, and needs no interrupt. Zero: it is told at once.
    pub tx_coalesce: Nanos,
    /// For how long frames of a guest that sends on without waiting for answers are gathered before the next poll,
    /// without a kick, where dispatch is adaptive. Zero: each kick is handled at once.
    pub kick_coalesce: Nanos,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            interrupts: Interrupts::default(),
            cut_through: true,
            tx_coalesce: Nanos(1_000_000),
            kick_coalesce: Nanos(50_000),
        }
    }
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

vocabulary!(Interrupts, { "batch" => Batch, "early" => Early, "before-data" => BeforeData });

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub kind: LinkKind,
    /// The networks that pass, none others in either direction; empty: all of this host's. A direct link has one
    /// anyway, and none here.
    pub networks: BTreeSet<String>,
}

impl Link {
    /// A link that carries all networks, or the one of a direct link.
    #[must_use]
    pub fn new(kind: LinkKind) -> Link {
        Link {
            kind,
            networks: BTreeSet::new(),
        }
    }

    #[must_use]
    pub fn carries(&self, network: &str) -> bool {
        match &self.kind {
            LinkKind::Direct { network: own, .. } => own == network,
            _ => self.networks.is_empty() || self.networks.contains(network),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// UDP in VXLAN's format (RFC 7348).
    Vxlan {
        remote: SocketAddr,
        /// This one; none: the source address of the route to the other, and the form's own port.
        local: Option<SocketAddr>,
        /// The network namespace of its sockets; none: the daemon's. In another, no frame takes the path in the kernel.
        netns: Option<PathBuf>,
    },
    /// UDP in this daemon's own format: large frames stay whole, checksums stay uncomputed.
    Udp {
        remote: SocketAddr,
        local: Option<SocketAddr>,
        netns: Option<PathBuf>,
    },
    /// As `udp`, encrypted and authenticated.
    Sealed {
        remote: SocketAddr,
        local: Option<SocketAddr>,
        netns: Option<PathBuf>,
        /// File with this host's private key.
        key: PathBuf,
        /// The other host's public key, in hexadecimal.
        peer: String,
    },
    /// A TCP connection that this host opens.
    Connect {
        remote: SocketAddr,
        tls: Option<Tls>,
    },
    /// A TCP connection that the other host opens.
    Listen {
        local: SocketAddr,
        peer: Peer,
        tls: Option<Tls>,
    },
    /// Raw frames of one network on an interface of this host.
    Direct {
        device: String,
        netns: Option<PathBuf>,
        network: String,
    },
}

/// The peers that a listening end accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Every host that can reach the address; under TLS, every host that the authority has signed.
    Any,
    /// The host of this address: the connection's source, or under TLS what its certificate names.
    Address(IpAddr),
    /// The host whose certificate names this (a DNS name among the subject alternative names).
    Name(String),
}

/// Certificates of a mutually authenticated connection, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// This host's certificate, with what leads to the authority.
    pub certificate: PathBuf,
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
    pub network: String,
    pub source: Qualifier,
    pub destination: Qualifier,
    pub to: PortName,
    /// Only for frames that came in here. A frame from a link goes to another link only by a route
    /// that names the link it came from.
    pub from: Option<PortName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qualifier {
    Is(Mac),
    Not(Mac),
    Any,
    /// All that no other route is for.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortName {
    Interface(String),
    Link(String),
}

impl PortName {
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
    pub dispatchers: u16,
    /// Where they run, one a CPU in turn; empty: anywhere.
    pub cpus: CpuList,
    pub mode: Mode,
    pub idle: Yield,
    /// Whether they go before the other threads of their CPU, as long as they work briefly.
    pub realtime: bool,
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
            realtime: true,
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
        enter: u32,
        leave: u32,
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

/// Idling of a polling dispatcher (Cui 2013, 5.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    /// Lets others run, and goes on at once.
    Immediate,
    /// Sleeps, at most this long.
    Timed { sleep: Nanos },
    /// The first until nothing has come for a while, then the second.
    Adaptive {
        sleep: Nanos,
        /// How long nothing must have come.
        after: Nanos,
    },
}
