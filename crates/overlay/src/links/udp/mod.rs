//! Links over UDP, in three forms: VXLAN's, this daemon's own, and that one encrypted.
//!
//! An [`Endpoint`] is this host's side, one for each local address and form. Every dispatcher has one
//! [`Receiver`] of it, a socket in the address's `SO_REUSEPORT` group, so that the kernel spreads the
//! peers' flows; and for every link a [`Transmitter`]. The sender's address tells which link a datagram
//! belongs to, the VXLAN or private header in which network it travels (whether that network exists here
//! is forwarding's question).
//!
//! - The outer checksum is never zero: `UDP_SEGMENT` and `UDP_GRO` need it, and it is the only thing
//!   that guards the outer header.
//! - Datagrams leave from [`SOURCE_PORTS`] sockets a dispatcher, chosen by the inner flow (RFC 7348,
//!   section 5): one source port would be one queue of the receiver's card and one dispatcher there.
//!   More would tear a batch into more system calls. Only the sealed form has one, that of the
//!   receivers, because a session is between two addresses.
//! - A datagram larger than the path's MTU is fragmented by IP (`IP_PMTUDISC_WANT`), smaller ones have
//!   the don't-fragment bit, so that the path's MTU is found and kept. Nothing needs that but datagrams
//!   that cannot be cut: TCP is cut to the path in VXLAN's form, and the private form cuts itself.
//!
//! Links come and go under traffic: receivers look once a batch whether the table of links has changed,
//! which is one atomic load.

mod path;
mod reassembly;
mod receive;
pub mod sealed;
mod transmit;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::endpoints::{Counters, PortId};
use crate::links::sys;

pub(in crate::links) use reassembly::{Outcome, Reassembly};
pub use receive::Receiver;
pub use transmit::Transmitter;
pub(in crate::links) use transmit::carried;

/// Sockets of a dispatcher's for one link.
pub const SOURCE_PORTS: usize = 4;
/// What a socket may hold before it drops, in bytes: a few full batches of large frames.
const SOCKET_BYTES: i32 = 8 << 20;

/// How frames are written.
#[derive(Debug, Clone)]
pub enum Form {
    /// RFC 7348.
    Vxlan,
    /// Large frames whole, checksums left as they are.
    Private,
    /// As private, encrypted.
    Sealed(Arc<sealed::Identity>),
}

/// One link of an endpoint.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its number.
    pub id: PortId,
    /// The other host.
    pub remote: SocketAddr,
    /// Its counters.
    pub counters: Arc<Counters>,
    /// The other host's public key, in the sealed form.
    pub key: Option<[u8; 32]>,
}

/// A link, as receivers and transmitters share it.
#[derive(Debug)]
struct Link {
    spec: Spec,
    /// Numbers of frames in the private form.
    number: AtomicU32,
    /// Largest datagram that is not fragmented on the way, as its transmitters last heard.
    payload: AtomicUsize,
    sealing: Option<Arc<sealed::Sealing>>,
}

/// Who is known.
#[derive(Debug, Default, Clone)]
struct Table {
    links: HashMap<IpAddr, Arc<Link>>,
    /// Links that take the place of one to the same host, once they are told to.
    heirs: HashMap<IpAddr, Arc<Link>>,
}

/// This host's side of its links over UDP.
#[derive(Debug)]
pub struct Endpoint {
    local: SocketAddr,
    form: Form,
    /// What this daemon calls itself in the private form.
    origin: u64,
    /// Datagrams that belong to no link.
    strangers: Arc<Counters>,
    table: Mutex<Arc<Table>>,
    generation: AtomicU64,
    /// The receivers' sockets, which the sealed form sends from.
    sockets: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Endpoint {
    /// An endpoint at `local`. `origin` is the daemon's number, not zero; what comes from unknown hosts
    /// is counted in `strangers`.
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
            table: Mutex::default(),
            generation: AtomicU64::new(0),
            sockets: Mutex::default(),
        })
    }

    /// Adds a link. From now on its peer's datagrams are received; but if it has the number of the link
    /// that leads to this peer already, it is that one's heir, and waits for [`Endpoint::inherit`].
    ///
    /// # Errors
    ///
    /// A peer that another link of this endpoint has already, or one of another address family; the
    /// sealed form without a key.
    pub fn add(&self, spec: Spec) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let remote = spec.remote;
        if remote.is_ipv6() != self.local.is_ipv6() {
            return refuse(format!("{remote} cannot be reached from {}", self.local));
        }
        let sealing = match (&self.form, spec.key) {
            (Form::Sealed(identity), Some(key)) => Some(self.sealing(&spec, identity, key)),
            (Form::Sealed(_), None) => return refuse(format!("no public key of {remote}")),
            _ => None,
        };
        let link = Arc::new(Link {
            spec,
            number: AtomicU32::new(0),
            payload: AtomicUsize::new(path::ETHERNET),
            sealing,
        });
        let mut taken = false;
        self.change(|table| match table.links.get(&remote.ip()) {
            Some(holder) if holder.spec.id == link.spec.id => {
                table.heirs.insert(remote.ip(), link);
            }
            Some(_) => taken = true,
            None => {
                table.links.insert(remote.ip(), link);
            }
        });
        if taken {
            return refuse(format!("{} is the other end of another link", remote.ip()));
        }
        Ok(())
    }

    /// What a link is sealed with: by an heir to the same peer, with the keys that are agreed already.
    fn sealing(
        &self,
        spec: &Spec,
        identity: &Arc<sealed::Identity>,
        key: [u8; 32],
    ) -> Arc<sealed::Sealing> {
        let table = self.table();
        let holder = table.links.get(&spec.remote.ip());
        let agreed = holder.filter(|holder| {
            let is_it = |holder: &Spec| (holder.id, holder.key) == (spec.id, Some(key));
            is_it(&holder.spec)
        });
        match agreed.and_then(|holder| holder.sealing.clone()) {
            Some(sealing) => sealing,
            None => Arc::new(sealed::Sealing::new(
                identity.clone(),
                key,
                sealed::Policy::default(),
            )),
        }
    }

    /// The link that leads to a host.
    #[must_use]
    pub fn holder(&self, host: IpAddr) -> Option<PortId> {
        self.table().links.get(&host).map(|link| link.spec.id)
    }

    /// An heir takes the place of the link with its number, from the next batch on.
    pub fn inherit(&self, id: PortId) {
        self.change(|table| {
            let heirs = std::mem::take(&mut table.heirs).into_iter();
            let (now, later): (HashMap<_, _>, _) = heirs.partition(|(_, heir)| heir.spec.id == id);
            table.links.extend(now);
            table.heirs = later;
        });
    }

    /// Removes a link, or its heir if it has one; whether there was one. Its transmitters are the
    /// caller's to drop.
    pub fn remove(&self, id: PortId) -> bool {
        let mut found = false;
        self.change(|table| {
            for links in [&mut table.heirs, &mut table.links] {
                let before = links.len();
                links.retain(|_, link| link.spec.id != id);
                found = links.len() != before;
                if found {
                    return;
                }
            }
        });
        found
    }

    /// A dispatcher's receiving half, for all links.
    ///
    /// # Errors
    ///
    /// An address that is not here, or that another program uses (the kernel's own vxlan device, for
    /// one).
    pub fn receiver(self: &Arc<Endpoint>) -> io::Result<Receiver> {
        let socket = Arc::new(socket(self.local)?);
        sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        lock(&self.sockets).push(socket.clone());
        Ok(Receiver::new(self.clone(), socket))
    }

    /// A dispatcher's sending half of a link.
    ///
    /// # Errors
    ///
    /// A link that is not here; in the sealed form, an endpoint that has no receiver yet.
    pub fn transmitter(self: &Arc<Endpoint>, id: PortId) -> io::Result<Transmitter> {
        let table = self.table();
        let mut all = table.heirs.values().chain(table.links.values());
        let link = all.find(|link| link.spec.id == id);
        let missing = |what| io::Error::new(io::ErrorKind::NotFound, what);
        let link = link.ok_or_else(|| missing("no such link"))?.clone();
        let sockets = if link.sealing.is_some() {
            let sockets = lock(&self.sockets);
            vec![
                sockets
                    .first()
                    .ok_or_else(|| missing("no receiver"))?
                    .clone(),
            ]
        } else {
            let mut from = self.local;
            from.set_port(0);
            let sockets = (0..SOURCE_PORTS).map(|_| socket(from).map(Arc::new));
            sockets.collect::<io::Result<_>>()?
        };
        Transmitter::new(self.clone(), link, sockets)
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = lock(&self.table);
        let mut next = Table::clone(&table);
        change(&mut next);
        *table = Arc::new(next);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn table(&self) -> Arc<Table> {
        lock(&self.table).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver's view of the table: looked at without a lock until it changes.
#[derive(Debug)]
struct View {
    table: Arc<Table>,
    generation: u64,
}

impl View {
    fn new(endpoint: &Endpoint) -> View {
        View {
            generation: endpoint.generation.load(Ordering::Acquire),
            table: endpoint.table(),
        }
    }

    fn refresh(&mut self, endpoint: &Endpoint) {
        if endpoint.generation.load(Ordering::Acquire) != self.generation {
            *self = View::new(endpoint);
        }
    }
}

/// A socket of a group at an address, with all that every socket here has.
fn socket(local: SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    let (level, option, want) = if local.is_ipv4() {
        (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_WANT,
        )
    } else {
        sockopt::set_ipv6_v6only(&socket, true)?;
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_WANT,
        )
    };
    sys::set(socket.as_fd(), level, option, want)?;
    enlarge(socket.as_fd());
    if local.port() != 0 {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &local)?;
    Ok(socket)
}

/// Asks for large buffers: beyond the system's limit where that is allowed, else up to it.
pub(in crate::links) fn enlarge(socket: BorrowedFd<'_>) {
    for (forced, modest) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if sys::set(socket, libc::SOL_SOCKET, forced, SOCKET_BYTES).is_err() {
            // Smaller buffers only drop sooner, which is counted.
            sys::set(socket, libc::SOL_SOCKET, modest, SOCKET_BYTES).ok();
        }
    }
}
