//! Links over UDP. All links from one address in one form share its sockets, one per dispatcher.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use latlab_model::overlay::{LinkKind, UDP_PORT, VXLAN_PORT};

use super::context::PortContext;
use super::error::OpenError;
use super::port::{OpenPort, PortHandle};
use super::tunnel_key::{FormKey, TunnelKey};
use crate::daemon::source_address::source_address;
use crate::endpoints::{Counters, DropReason, PortId};
use crate::links::netns;
use crate::links::udp::{Endpoint, Form, UdpLinkConfig, sealed};

struct Tunnel {
    endpoint: Arc<Endpoint>,
    links: usize,
}

pub(super) struct Tunnels {
    open: BTreeMap<TunnelKey, Tunnel>,
    strangers: Arc<Counters>,
    /// This daemon's number, to detect frames that return.
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

    /// Opens a link, and the sockets of its tunnel endpoint with the first link.
    pub fn open(
        &mut self,
        context: &PortContext<'_>,
        kind: &LinkKind,
    ) -> Result<OpenPort, OpenError> {
        let hint = "name an address of this host with `local`, and a port that is free; without \
                    `local` there has to be a route to the other host";
        self.try_open(context, kind)
            .map_err(|error| OpenError::new(context, &error, hint))
    }

    fn try_open(&mut self, context: &PortContext<'_>, kind: &LinkKind) -> io::Result<OpenPort> {
        let (remote, key) = ends(kind)?;
        let peer = match kind {
            LinkKind::Sealed { peer, .. } => sealed::parse_key(peer),
            _ => None,
        };
        let config = UdpLinkConfig {
            id: context.id,
            remote,
            counters: Arc::clone(&context.counters),
            key: peer,
        };
        let mut receivers = Vec::new();
        let endpoint = match self.open.get(&key) {
            Some(tunnel) => Arc::clone(&tunnel.endpoint),
            None => {
                let form = form_of(&key.form)?;
                let strangers = Arc::clone(&self.strangers);
                let endpoint = Endpoint::new(form, key.local, self.origin, strangers);
                receivers = netns::inside(key.netns.as_deref(), || {
                    let each = (0..context.dispatchers).map(|_| endpoint.receiver());
                    each.collect::<io::Result<Vec<_>>>()
                })??;
                endpoint
            }
        };
        endpoint.add(config)?;
        let sender = netns::inside(key.netns.as_deref(), || endpoint.transmitter(context.id));
        let sender = sender.and_then(|sender| sender).inspect_err(|_| {
            endpoint.remove(context.id);
        })?;
        let tunnel = self
            .open
            .entry(key.clone())
            .or_insert(Tunnel { endpoint, links: 0 });
        tunnel.links += 1;
        Ok(OpenPort::new(receivers, sender, PortHandle::Tunnel(key)))
    }

    /// The link to the same host from the same tunnel endpoint.
    pub fn holder(&self, kind: &LinkKind) -> Option<PortId> {
        let (remote, key) = ends(kind).ok()?;
        self.open.get(&key)?.endpoint.holder(remote.ip())
    }

    /// A link replaces the one with its number, which is closed with `has_heir`.
    pub fn inherit(&self, id: PortId, key: &TunnelKey) {
        if let Some(tunnel) = self.open.get(key) {
            tunnel.endpoint.inherit(id);
        }
    }

    /// Closes a link, and its tunnel endpoint with the last. An heir keeps its number.
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

    pub const fn origin(&self) -> u64 {
        self.origin
    }

    pub fn strangers(&self) -> u64 {
        self.strangers.dropped(DropReason::Unknown)
    }
}

/// The other host of a link over UDP, and its tunnel endpoint here.
fn ends(kind: &LinkKind) -> io::Result<(SocketAddr, TunnelKey)> {
    let (remote, local, netns, form, port) = match kind {
        LinkKind::Vxlan {
            remote,
            local,
            netns,
        } => (remote, local, netns, FormKey::Vxlan, VXLAN_PORT),
        LinkKind::Udp {
            remote,
            local,
            netns,
        } => (remote, local, netns, FormKey::Private, UDP_PORT),
        LinkKind::Sealed {
            remote,
            local,
            netns,
            key,
            ..
        } => {
            let form = FormKey::Sealed(key.clone());
            (remote, local, netns, form, UDP_PORT)
        }
        _ => return Err(io::Error::other("not a link over UDP")),
    };
    let local = match local {
        Some(local) => *local,
        // Only the address towards the peer, so that hosts of other networks cannot reach it.
        None => {
            let address = netns::inside(netns.as_deref(), || source_address(*remote))??;
            SocketAddr::new(address, port)
        }
    };
    let netns = netns.clone();
    Ok((*remote, TunnelKey { local, netns, form }))
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
