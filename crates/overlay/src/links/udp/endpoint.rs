//! This host's side of links over UDP.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::path::ETHERNET;
use super::sealed;
use crate::endpoints::{Counters, PortId};
use crate::sync::lock;

#[derive(Debug, Clone)]
pub enum Form {
    /// RFC 7348.
    Vxlan,
    /// Large frames whole, checksums uncomputed.
    Private,
    /// The private form, encrypted.
    Sealed(Arc<sealed::Identity>),
}

#[derive(Debug, Clone)]
pub struct UdpLinkConfig {
    pub id: PortId,
    pub remote: SocketAddr,
    pub counters: Arc<Counters>,
    /// The peer's public key, in the sealed form.
    pub key: Option<[u8; 32]>,
}

#[derive(Debug)]
pub(super) struct UdpLink {
    pub config: UdpLinkConfig,
    /// Number of the next frame in the private form.
    pub number: AtomicU32,
    /// Maximum payload of a datagram that is not fragmented.
    pub payload: AtomicUsize,
    pub sealing: Option<Arc<sealed::Sealing>>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Peers {
    pub links: HashMap<IpAddr, Arc<UdpLink>>,
    /// Links that will replace one to the same host ([`Endpoint::inherit`]).
    heirs: HashMap<IpAddr, Arc<UdpLink>>,
}

/// A local address and form, with all links from there.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) local: SocketAddr,
    pub(super) form: Form,
    /// This daemon's number in the private form.
    pub(super) origin: u64,
    pub(super) strangers: Arc<Counters>,
    peers: Mutex<Arc<Peers>>,
    generation: AtomicU64,
    /// The receivers' sockets, from which the sealed form sends.
    pub(super) sockets: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Endpoint {
    /// `origin` is the daemon's number, not zero; `strangers` counts datagrams of unknown hosts.
    #[must_use]
    pub fn new(
        form: Form,
        local: SocketAddr,
        origin: u64,
        strangers: Arc<Counters>,
    ) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            local,
            form,
            origin,
            strangers,
            peers: Mutex::default(),
            generation: AtomicU64::new(0),
            sockets: Mutex::default(),
        })
    }

    /// Adds a link, whose peer's datagrams are received from now on. A link with the number of the present link to
    /// this peer is its heir, and waits for [`Endpoint::inherit`]. Errors: a peer that another link of this endpoint
    /// has, or of another address family; the sealed form without a key.
    pub fn add(&self, config: UdpLinkConfig) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let remote = config.remote;
        if remote.is_ipv6() != self.local.is_ipv6() {
            return refuse(format!("{remote} cannot be reached from {}", self.local));
        }
        let sealing = match (&self.form, config.key) {
            (Form::Sealed(identity), Some(key)) => Some(self.sealing(&config, identity, key)),
            (Form::Sealed(_), None) => return refuse(format!("no public key of {remote}")),
            _ => None,
        };
        let link = Arc::new(UdpLink {
            config,
            number: AtomicU32::new(0),
            payload: AtomicUsize::new(ETHERNET),
            sealing,
        });
        self.change(|peers| {
            let links = match peers.links.get(&remote.ip()) {
                Some(holder) if holder.config.id == link.config.id => &mut peers.heirs,
                Some(_) => {
                    let host = remote.ip();
                    return refuse(format!("{host} is the other end of another link"));
                }
                None => &mut peers.links,
            };
            links.insert(remote.ip(), link);
            Ok(())
        })
    }

    /// The keys of a link: an heir to the same peer continues with the negotiated ones.
    fn sealing(
        &self,
        config: &UdpLinkConfig,
        identity: &Arc<sealed::Identity>,
        key: [u8; 32],
    ) -> Arc<sealed::Sealing> {
        let peers = self.peers();
        let holder = peers.links.get(&config.remote.ip());
        let wanted = (config.id, Some(key));
        let agreed = holder.filter(|holder| (holder.config.id, holder.config.key) == wanted);
        let sealing = agreed.and_then(|holder| holder.sealing.clone());
        sealing.unwrap_or_else(|| {
            let policy = sealed::Policy::default();
            Arc::new(sealed::Sealing::new(identity.clone(), key, policy))
        })
    }

    #[must_use]
    pub fn holder(&self, host: IpAddr) -> Option<PortId> {
        self.peers().links.get(&host).map(|link| link.config.id)
    }

    /// The heir replaces the link with its number, from the next batch on.
    pub fn inherit(&self, id: PortId) {
        self.change(|peers| {
            let heirs = std::mem::take(&mut peers.heirs).into_iter();
            let (now, later): (HashMap<_, _>, _) =
                heirs.partition(|(_, heir)| heir.config.id == id);
            peers.links.extend(now);
            peers.heirs = later;
        });
    }

    /// Removes a link, or its heir if it has one; returns whether there was one. The caller drops its transmitters.
    pub fn remove(&self, id: PortId) -> bool {
        self.change(|peers| {
            let mut all = [&mut peers.heirs, &mut peers.links].into_iter();
            all.any(|links| {
                let before = links.len();
                links.retain(|_, link| link.config.id != id);
                links.len() != before
            })
        })
    }

    pub(super) fn newest_link(&self, id: PortId) -> Option<Arc<UdpLink>> {
        let peers = self.peers();
        let mut all = peers.heirs.values().chain(peers.links.values());
        all.find(|link| link.config.id == id).cloned()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Peers) -> T) -> T {
        let mut peers = lock(&self.peers);
        let mut next = Peers::clone(&peers);
        let result = change(&mut next);
        *peers = Arc::new(next);
        self.generation.fetch_add(1, Ordering::Release);
        result
    }

    pub(super) fn peers(&self) -> Arc<Peers> {
        lock(&self.peers).clone()
    }
}

/// A receiver's copy of the peers, read without a lock until they change.
#[derive(Debug)]
pub(super) struct PeersView {
    pub peers: Arc<Peers>,
    generation: u64,
}

impl PeersView {
    pub fn new(endpoint: &Endpoint) -> PeersView {
        PeersView {
            generation: endpoint.generation.load(Ordering::Acquire),
            peers: endpoint.peers(),
        }
    }

    pub fn refresh(&mut self, endpoint: &Endpoint) {
        if endpoint.generation.load(Ordering::Acquire) != self.generation {
            *self = PeersView::new(endpoint);
        }
    }
}
