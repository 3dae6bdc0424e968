//! Links over UDP. All that begin at one address in one form share its sockets, one a dispatcher.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use latlab_model::overlay::LinkKind;
use latlab_model::overlay::{UDP_PORT, VXLAN_PORT};

use super::{Failed, Made, Opened, Way, boxed};
use crate::endpoints::{Counters, DropReason, PortId};
use crate::links::udp::{Endpoint, Form, Spec, sealed};

/// What tells one tunnel end of this host from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon) struct TunnelKey {
    local: SocketAddr,
    form: FormKey,
}

impl TunnelKey {
    /// This end's address, if it is one of IPv4.
    pub(in crate::daemon) fn local_v4(&self) -> Option<SocketAddrV4> {
        match self.local {
            SocketAddr::V4(local) => Some(local),
            SocketAddr::V6(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FormKey {
    Vxlan,
    Private,
    Sealed(PathBuf),
}

struct Tunnel {
    endpoint: Arc<Endpoint>,
    links: usize,
}

/// The tunnel ends of this host.
pub(super) struct Tunnels {
    open: BTreeMap<TunnelKey, Tunnel>,
    strangers: Arc<Counters>,
    /// What this daemon calls itself, to notice frames that come back.
    origin: u64,
}

impl Tunnels {
    pub fn new() -> Tunnels {
        Tunnels {
            open: BTreeMap::new(),
            strangers: Arc::default(),
            origin: RandomState::new().hash_one("origin").max(1),
        }
    }

    /// Opens a link, and the sockets of its tunnel end if it is the first there.
    pub fn open(&mut self, way: &Way<'_>, kind: &LinkKind) -> Result<Made, Failed> {
        let hint = "name an address of this host with `local`, and a port that nobody else uses; without \
                    `local` there has to be a route to the other host";
        self.try_open(way, kind)
            .map_err(|error| Failed::new(way, &error, hint))
    }

    fn try_open(&mut self, way: &Way<'_>, kind: &LinkKind) -> io::Result<Made> {
        let (remote, key) = ends(kind)?;
        let peer = match kind {
            LinkKind::Sealed { peer, .. } => sealed::parse_key(peer),
            _ => None,
        };
        let spec = Spec {
            id: way.id,
            remote,
            counters: Arc::clone(&way.counters),
            key: peer,
        };
        let mut receivers = Vec::new();
        let endpoint = match self.open.get(&key) {
            Some(tunnel) => Arc::clone(&tunnel.endpoint),
            None => {
                let form = form_of(&key.form)?;
                let strangers = Arc::clone(&self.strangers);
                let endpoint = Endpoint::new(form, key.local, self.origin, strangers);
                for _ in 0..way.dispatchers {
                    receivers.push(endpoint.receiver()?);
                }
                endpoint
            }
        };
        endpoint.add(spec)?;
        let sender = endpoint.transmitter(way.id).inspect_err(|_| {
            endpoint.remove(way.id);
        })?;
        let tunnel = self
            .open
            .entry(key.clone())
            .or_insert(Tunnel { endpoint, links: 0 });
        tunnel.links += 1;
        Ok(Made {
            receivers: boxed(receivers),
            sender: Box::new(sender),
            opened: Opened::Tunnel(key),
        })
    }

    /// The link that leads to the same host from the same tunnel end.
    pub fn holder(&self, kind: &LinkKind) -> Option<PortId> {
        let (remote, key) = ends(kind).ok()?;
        self.open.get(&key)?.endpoint.holder(remote.ip())
    }

    /// A link takes the place of the one with its number, which is to be closed as one that has an heir.
    pub fn inherit(&self, id: PortId, key: &TunnelKey) {
        if let Some(tunnel) = self.open.get(key) {
            tunnel.endpoint.inherit(id);
        }
    }

    /// Closes a link, and its tunnel end with the last. What has an heir leaves its number to it.
    pub fn close(&mut self, id: PortId, key: &TunnelKey, has_heir: bool) {
        if let Some(tunnel) = self.open.get_mut(key) {
            if !has_heir {
                tunnel.endpoint.remove(id);
            }
            tunnel.links -= 1;
            if tunnel.links == 0 {
                self.open.remove(key);
            }
        }
    }

    /// What this daemon calls itself.
    pub const fn origin(&self) -> u64 {
        self.origin
    }

    pub fn strangers(&self) -> u64 {
        self.strangers.dropped(DropReason::Unknown)
    }
}

/// The other host of a link over UDP, and the tunnel end that it begins at.
fn ends(kind: &LinkKind) -> io::Result<(SocketAddr, TunnelKey)> {
    let (remote, local, form, port) = match kind {
        LinkKind::Vxlan { remote, local } => (remote, local, FormKey::Vxlan, VXLAN_PORT),
        LinkKind::Udp { remote, local } => (remote, local, FormKey::Private, UDP_PORT),
        LinkKind::Sealed {
            remote, local, key, ..
        } => (remote, local, FormKey::Sealed(key.clone()), UDP_PORT),
        _ => return Err(io::Error::other("not a link over UDP")),
    };
    let local = match local {
        Some(local) => *local,
        // At no other address: the hosts of other networks have no business there.
        None => SocketAddr::new(source_address(*remote)?, port),
    };
    Ok((*remote, TunnelKey { local, form }))
}

/// The address from which datagrams to a host leave: asked of the kernel, without sending anything.
fn source_address(remote: SocketAddr) -> io::Result<IpAddr> {
    let anywhere: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((anywhere, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

fn form_of(key: &FormKey) -> io::Result<Form> {
    Ok(match key {
        FormKey::Vxlan => Form::Vxlan,
        FormKey::Private => Form::Private,
        FormKey::Sealed(file) => {
            let identity = sealed::Identity::read(file).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
            Form::Sealed(Arc::new(identity))
        }
    })
}
