//! Keeps the kernel's path in step with the daemon.
//!
//! A dispatcher that has decided about a container's frame tells it here ([`Settled`]), and the next
//! such frame stays in the kernel. A change of the configuration reviews every route under the new
//! table before it takes effect: those that stay right serve every frame meanwhile, the others are
//! forgotten. A thread does the same once a second and whenever an address has moved; it also sees
//! which routes are used, so that addresses whose frames never come here any more do not age.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_netlink::Handle;

use crate::dispatch::{Decision, Settled};
use crate::endpoints::PortId;
use crate::forwarding::{Decider, Learned, Table};
use crate::kernel::{
    Counts, Ends, Error, KernelPath, Key, Mac, Origin, Port, PortKind, Review, Route, Way,
};

/// A review of many routes takes its time, and what any port sends can call for one: of the time, at most this part is
/// spent on reviews, one in so many.
const SHARE: u32 = 10;

/// How often moves are looked for, and how many of those looks make a whole review.
const TICK: Duration = Duration::from_millis(100);
const TICKS: u32 = 10;

/// How many whole reviews until it is asked anew which routes are used. Asking writes the route, and
/// the kernel may use its old place for another while a frame still looks at it: so not too often.
const REVIEWS: u32 = 60;

/// What VXLAN puts before a frame without its Ethernet header (RFC 7348).
const VXLAN_BYTES: u32 = 50;

/// Counted under this number: what belongs to a wire and not to one of its links.
const WIRE: PortId = PortId(super::MAX_PORTS);

/// Where the kernel finds a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A container's interface.
    Container {
        /// The host's end.
        device: u32,
    },
    /// A wire for bare frames.
    Direct {
        /// The interface.
        device: u32,
    },
    /// Another host, through VXLAN; where its wire is has yet to be found out.
    Tunnel {
        /// The other host.
        remote: SocketAddrV4,
        /// This one, perhaps not said.
        local: SocketAddrV4,
    },
}

/// A place that the kernel can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Container {
        device: u32,
    },
    Direct {
        device: u32,
        longest: u16,
    },
    Tunnel {
        device: u32,
        ends: Ends,
        remote_mac: Mac,
        local_mac: Mac,
        longest: u16,
    },
    /// A tunnel whose other host is not known as a neighbour, or not yet: the path can be at its wire
    /// before anything passes there.
    Wire {
        device: u32,
    },
}

/// What holds between two changes.
struct Current {
    table: Arc<Table>,
    places: HashMap<PortId, Place>,
    view: Arc<View>,
    /// Nothing was installed yet: the routes are those of the daemon before, if there was one.
    is_new: bool,
}

/// What dispatchers of one snapshot keep by.
struct View {
    path: Arc<KernelPath>,
    /// Looked at for each lasting decision, changed when a neighbour does.
    found: RwLock<HashMap<PortId, Found>>,
    generation: u32,
}

/// Keeps the kernel's path in step with the daemon. Dropping it ends its thread; the path stays.
pub(super) struct Keeper {
    path: Arc<KernelPath>,
    learned: Arc<Learned>,
    current: Arc<Mutex<Current>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep a path.
    pub fn start(path: Arc<KernelPath>, learned: Arc<Learned>) -> std::io::Result<Keeper> {
        let generation = path.floor().unwrap_or(0);
        let view = View {
            path: Arc::clone(&path),
            found: RwLock::default(),
            generation,
        };
        let current = Arc::new(Mutex::new(Current {
            table: Arc::default(),
            places: HashMap::new(),
            view: Arc::new(view),
            is_new: true,
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let (watched, known, over) = (
            Arc::clone(&current),
            Arc::clone(&learned),
            Arc::clone(&is_over),
        );
        let thread = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || watch(&watched, &known, &over))?;
        Ok(Keeper {
            path,
            learned,
            current,
            is_over,
            thread: Some(thread),
        })
    }

    /// Takes a new configuration: what the kernel follows is right by it from now on. Returns what the
    /// dispatchers keep by. Those who still work by the configuration before may keep by that one:
    /// [`Keeper::confirm`] when none does any more.
    pub fn install(
        &self,
        table: Arc<Table>,
        places: HashMap<PortId, Place>,
    ) -> Result<Arc<dyn Settled>, Error> {
        let mut current = lock(&self.current);
        // Routes that stay right are not written at all, so that their frames cannot notice.
        let generation = current.view.generation;
        let found = find(&places);
        attach_wires(&self.path, &found);
        current.view = Arc::new(View {
            path: Arc::clone(&self.path),
            found: RwLock::new(found),
            generation,
        });
        (current.table, current.places) = (table, places);
        if std::mem::take(&mut current.is_new) {
            recall(&current, &self.learned)?;
        }
        review(&current, &self.learned, false)?;
        Ok(Arc::clone(&current.view) as Arc<dyn Settled>)
    }

    /// Every dispatcher works by the last configuration now: forgets what was kept by others.
    pub fn confirm(&self) -> Result<(), Error> {
        review(&lock(&self.current), &self.learned, false)
    }

    /// What was counted in the kernel about a port.
    pub fn counts(&self, id: PortId) -> Counts {
        self.path.counts(id).unwrap_or_default()
    }
}

/// Puts the path at the wires that tunnels go through.
fn attach_wires(path: &KernelPath, found: &HashMap<PortId, Found>) {
    for place in found.values() {
        if let Found::Tunnel { device, .. } | Found::Wire { device } = place {
            let wire = Port {
                id: WIRE,
                device: *device,
                kind: PortKind::Tunnel,
                network: 0,
                tap: None,
                mac: None,
                floods: None,
            };
            // Without it, everything still comes in through the daemon's socket.
            let _ = path.attach(&wire);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(current: &Mutex<Current>) -> std::sync::MutexGuard<'_, Current> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Settled for View {
    fn settled(&self, decision: &Decision) {
        let ports = (decision.ingress, decision.egress);
        if let Some((origin, route)) = self.route(decision.network, ports) {
            let key = Key {
                origin,
                source: decision.source,
                destination: decision.destination,
            };
            // A full map makes room by itself; anything else leaves the frames to the daemon.
            let _ = self.path.keep(&key, &route);
        }
    }
}

impl View {
    /// Where a network's frames come from and how they get from one port to another inside the kernel, if
    /// they can.
    fn route(&self, network: u32, (ingress, egress): (PortId, PortId)) -> Option<(Origin, Route)> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = (found.get(&ingress)?, found.get(&egress)?);
        let (way, longest) = match (*from, *to) {
            (Found::Container { .. }, Found::Direct { device, longest }) => {
                (Way::Direct { device }, Some(longest))
            }
            (
                Found::Container { .. },
                Found::Tunnel {
                    device,
                    ends,
                    remote_mac,
                    local_mac,
                    longest,
                },
            ) => {
                let way = Way::Vxlan {
                    device,
                    ends,
                    remote_mac,
                    local_mac,
                };
                (way, Some(longest))
            }
            (Found::Tunnel { ends, .. }, Found::Container { device }) => {
                let from = Some(ends);
                (Way::Local { device, from }, None)
            }
            (Found::Container { .. } | Found::Direct { .. }, Found::Container { device }) => {
                (Way::Local { device, from: None }, None)
            }
            _ => return None,
        };
        let origin = match *from {
            Found::Container { device } | Found::Direct { device, .. } => Origin::Device(device),
            Found::Tunnel { .. } | Found::Wire { .. } => Origin::Tunnel(network),
        };
        let route = Route {
            network,
            ingress,
            egress,
            way,
            longest,
            generation: self.generation,
        };
        Some((origin, route))
    }
}

/// Learns from the routes that a daemon before has left where addresses are: both ends of a flow, before
/// either of its routes is asked for. Else each would be forgotten for want of the other.
fn recall(current: &Current, learned: &Arc<Learned>) -> Result<(), Error> {
    let mut decider = Decider::new(Arc::clone(&current.table), Arc::clone(learned), 1);
    decider.begin(learned.now());
    current.view.path.review(|key, route, used| {
        let way = (route.ingress, route.network, key.source, key.destination);
        // Asked for what it learns from the question.
        let _ = decider.settled(way, used);
        Review::Keep
    })
}

/// Looks at every route: what is still decided the same is kept, with what is known now. `anew` says
/// that from now on it is asked again which ones are used.
fn review(current: &Current, learned: &Arc<Learned>, anew: bool) -> Result<(), Error> {
    let mut decider = Decider::new(Arc::clone(&current.table), Arc::clone(learned), 1);
    decider.begin(learned.now());
    current.view.path.review(|key, route, used| {
        let way = (route.ingress, route.network, key.source, key.destination);
        let Some(egress) = decider.settled(way, used) else {
            return Review::Forget;
        };
        match current.view.route(route.network, (route.ingress, egress)) {
            // The port is at another interface now.
            Some((origin, _)) if origin != key.origin => Review::Forget,
            Some((_, new)) if new == *route && !(used && anew) => Review::Keep,
            Some((_, new)) => Review::Replace(new),
            None => Review::Forget,
        }
    })
}

fn watch(current: &Mutex<Current>, learned: &Arc<Learned>, is_over: &AtomicBool) {
    let (mut moves, mut ticks, mut reviews) = (learned.moves(), 0, 0);
    let mut rest_until = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(TICK);
        ticks += 1;
        let now = learned.moves();
        let begun = Instant::now();
        if (now == moves && ticks < TICKS) || begun < rest_until {
            continue;
        }
        (moves, ticks) = (now, 0);
        reviews = (reviews + 1) % REVIEWS;
        let current = lock(current);
        // Neighbours come and go, and change their addresses.
        let found = find(&current.places);
        let mut known = current
            .view
            .found
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != found {
            attach_wires(&current.view.path, &found);
            *known = found;
            // What was decided while nobody could be told is decided again.
            learned.doubt();
        }
        drop(known);
        // What fails now is tried again in a second.
        let _ = review(&current, learned, reviews == 0);
        let ended = Instant::now();
        rest_until = ended + (ended - begun) * (SHARE - 1);
    }
}

/// Finds the wires and the neighbours of places; those that cannot be found are left to the daemon.
fn find(places: &HashMap<PortId, Place>) -> HashMap<PortId, Found> {
    let mut found = HashMap::new();
    if places.is_empty() {
        return found;
    }
    let Ok(mut links) = Handle::open() else {
        return found;
    };
    for (id, place) in places {
        let here = match *place {
            Place::Container { device } => Some(Found::Container { device }),
            Place::Direct { device } => mtu(&mut links, device).map(|mtu| Found::Direct {
                device,
                longest: frame(mtu),
            }),
            Place::Tunnel { remote, local } => tunnel(&mut links, remote, local),
        };
        found.extend(here.map(|here| (*id, here)));
    }
    found
}

fn mtu(links: &mut Handle, device: u32) -> Option<u32> {
    Some(links.link_by_index(device).ok()??.mtu_bytes)
}

/// The largest frame for an MTU.
fn frame(mtu: u32) -> u16 {
    u16::try_from(mtu + 14).unwrap_or(u16::MAX)
}

/// The wire to a host on the same segment, and the host's address there.
fn tunnel(links: &mut Handle, remote: SocketAddrV4, local: SocketAddrV4) -> Option<Found> {
    let own = own_address(remote, local)?;
    let address = links
        .addresses()
        .ok()?
        .into_iter()
        .find(|known| known.address.address == own)?
        .address;
    if !ipnet_contains(own, address.prefix_length, *remote.ip()) {
        return None;
    }
    let neighbours = links.neighbours().ok()?;
    let neighbour = neighbours.iter().find(|neighbour| {
        neighbour.interface == address.interface
            && neighbour.address == Some(IpAddr::V4(*remote.ip()))
    });
    let wire = links.link_by_index(address.interface).ok()??;
    let IpAddr::V4(own) = own else { return None };
    let Some(remote_mac) = neighbour.and_then(|neighbour| neighbour.mac) else {
        return Some(Found::Wire { device: wire.index });
    };
    Some(Found::Tunnel {
        device: wire.index,
        ends: Ends {
            remote,
            local: SocketAddrV4::new(own, local.port()),
        },
        remote_mac: remote_mac.0,
        local_mac: wire.mac?.0,
        longest: frame(wire.mtu_bytes.saturating_sub(VXLAN_BYTES)),
    })
}

/// The address from which frames to a host leave: asked of the kernel, without sending anything.
fn own_address(remote: SocketAddrV4, local: SocketAddrV4) -> Option<IpAddr> {
    if !local.ip().is_unspecified() {
        return Some(IpAddr::V4(*local.ip()));
    }
    let socket = UdpSocket::bind(SocketAddrV4::new(*local.ip(), 0)).ok()?;
    socket.connect(SocketAddr::V4(remote)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether two addresses share a prefix.
fn ipnet_contains(own: IpAddr, prefix: u8, other: std::net::Ipv4Addr) -> bool {
    let IpAddr::V4(own) = own else { return false };
    let mask = u32::MAX
        .checked_shl(32 - u32::from(prefix.min(32)))
        .unwrap_or(0);
    u32::from(own) & mask == u32::from(other) & mask
}
