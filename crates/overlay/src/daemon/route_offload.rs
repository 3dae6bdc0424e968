//! Keeps the kernel path's routes in step with the daemon.
//!
//! A dispatcher that has decided about a container's frame reports the flow ([`FlowSink`]), and its next frame stays in
//! the kernel. A change of the configuration reviews every route under the new table before it takes effect: correct
//! routes serve every frame meanwhile, others are deleted. A thread reviews them once a second and whenever an address
//! has moved. It also learns which routes are used, so that addresses of offloaded flows do not age.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_netlink::Handle;

use super::source_address::source_address;
use crate::endpoints::PortId;
use crate::forwarding::{Decider, Flow, FlowCounters, FlowSink, Learned, Table};
use crate::kernel::{
    Action, Counts, Error, KernelPath, KernelPort, KernelPortKind, Mac, Origin, Pair, Review,
    Route, RouteKey, TunnelEnds,
};
use crate::sync::lock;

/// Reviews take at most 1/SHARE of the time: any port's frames can trigger one, and one of many routes is slow.
const SHARE: u32 = 10;

/// Interval of checks for moved addresses, and number of checks between two reviews.
const TICK: Duration = Duration::from_millis(100);
const TICKS: u32 = 10;

/// Reviews between two resets of the routes' used flags. A reset rewrites the route, whose old memory the kernel may
/// reuse while a program still reads it, so it is rare.
const REVIEWS: u32 = 60;

/// Bytes of VXLAN's headers, with the inner Ethernet header (RFC 7348).
const VXLAN_BYTES: u32 = 50;

/// How the kernel path reaches a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    /// Index of the host's end of a container's cable.
    Container { device: u32 },
    /// Index of an uplink for unencapsulated frames.
    Direct { device: u32 },
    /// Another host, through VXLAN; `local` may be unspecified.
    Tunnel {
        remote: SocketAddrV4,
        local: SocketAddrV4,
    },
}

/// An attachment with its uplink and neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolved {
    Container {
        device: u32,
    },
    Direct {
        device: u32,
        longest: u16,
    },
    Tunnel {
        device: u32,
        ends: TunnelEnds,
        remote_mac: Mac,
        local_mac: Mac,
        longest: u16,
    },
    /// The uplink of a tunnel whose remote host is no known neighbour (yet).
    Uplink {
        device: u32,
    },
}

/// State between two changes of the configuration.
struct Current {
    table: Arc<Table>,
    attachments: HashMap<PortId, Attachment>,
    sink: Arc<RouteSink>,
    /// No table was installed yet: the routes are those of a previous daemon.
    is_new: bool,
}

/// Stores the routes of one snapshot's dispatchers.
struct RouteSink {
    path: Arc<KernelPath>,
    /// Read for each new flow, written when a neighbour changes.
    resolved: RwLock<HashMap<PortId, Resolved>>,
}

/// Offloads flows to the kernel path. Dropping it ends its thread; the path stays.
pub(super) struct RouteOffload {
    path: Arc<KernelPath>,
    learned: Arc<Learned>,
    current: Arc<Mutex<Current>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RouteOffload {
    pub fn start(path: Arc<KernelPath>, learned: Arc<Learned>) -> std::io::Result<RouteOffload> {
        let sink = RouteSink {
            path: Arc::clone(&path),
            resolved: RwLock::default(),
        };
        let current = Arc::new(Mutex::new(Current {
            table: Arc::default(),
            attachments: HashMap::new(),
            sink: Arc::new(sink),
            is_new: true,
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let (watched, known, over) = (
            Arc::clone(&current),
            Arc::clone(&learned),
            Arc::clone(&is_over),
        );
        let thread = std::thread::Builder::new()
            .name("route-offload".into())
            .spawn(move || watch(&watched, &known, &over))?;
        Ok(RouteOffload {
            path,
            learned,
            current,
            is_over,
            thread: Some(thread),
        })
    }

    /// Installs a new table: the kernel's routes are correct by it from now on. Returns the sink for the dispatchers.
    /// Until all of them use it, they may store routes of the previous table: then call [`RouteOffload::confirm`].
    pub fn install(
        &self,
        table: Arc<Table>,
        attachments: HashMap<PortId, Attachment>,
    ) -> Result<Arc<dyn FlowSink>, Error> {
        let mut current = lock(&self.current);
        let resolved = resolve(&attachments);
        attach_uplinks(&self.path, &resolved);
        if resolved.len() == attachments.len() {
            detach_unused_uplinks(&self.path, &resolved);
        }
        current.sink = Arc::new(RouteSink {
            path: Arc::clone(&self.path),
            resolved: RwLock::new(resolved),
        });
        (current.table, current.attachments) = (table, attachments);
        if std::mem::take(&mut current.is_new) {
            recall(&current, &self.learned)?;
        }
        // Correct routes are not rewritten, so their traffic does not notice.
        review(&current, &self.learned, false)?;
        Ok(Arc::clone(&current.sink) as Arc<dyn FlowSink>)
    }

    /// Deletes the routes of an address's frames. That they were used would say that it still is where they came from.
    pub fn forget(&self, network: u32, address: [u8; 6]) -> Result<(), Error> {
        let current = lock(&self.current);
        current.sink.path.review(|key, route, _| {
            match route.network == network && key.source == address {
                true => Review::Delete,
                false => Review::Keep,
            }
        })
    }

    /// Every dispatcher uses the last table now: deletes routes of previous ones.
    pub fn confirm(&self) -> Result<(), Error> {
        review(&lock(&self.current), &self.learned, false)
    }

    pub fn counts(&self, id: PortId) -> Counts {
        self.path.counts(id).unwrap_or_default()
    }

    /// Traffic that stayed in the kernel; without addresses, what is not counted apart.
    pub fn traffic(&self) -> Vec<(Option<Pair>, FlowCounters)> {
        self.path.traffic().unwrap_or_default()
    }
}

fn attach_uplinks(path: &KernelPath, resolved: &HashMap<PortId, Resolved>) {
    for attachment in resolved.values() {
        if let Resolved::Tunnel { device, .. } | Resolved::Uplink { device } = attachment {
            // Without it, datagrams still reach the daemon's socket.
            let _ = path.attach(&KernelPort::uplink(*device));
        }
    }
}

/// Direct links keep interfaces that no tunnel uses any more to themselves: their own program is faster.
fn detach_unused_uplinks(path: &KernelPath, resolved: &HashMap<PortId, Resolved>) {
    let is_used = |uplink: u32| {
        resolved.values().any(|attachment| {
            matches!(attachment, Resolved::Tunnel { device, .. } | Resolved::Uplink { device } if *device == uplink)
        })
    };
    for port in path.ports().unwrap_or_default() {
        if port.kind == KernelPortKind::Shared && !is_used(port.device) {
            // A failure costs speed alone, and the next change tries again.
            let _ = path.detach(&KernelPort::uplink(port.device));
        }
    }
}

impl Drop for RouteOffload {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl FlowSink for RouteSink {
    fn learned(&self, flow: &Flow, egress: PortId) {
        if let Some((origin, route)) = self.route(flow, egress) {
            let key = RouteKey {
                origin,
                source: flow.source,
                destination: flow.destination,
            };
            // A full LRU map evicts; after any error the frames stay the daemon's.
            let _ = self.path.store(&key, &route);
        }
    }
}

impl RouteSink {
    /// Origin and route of a flow, if the kernel path can carry it.
    fn route(&self, flow: &Flow, egress: PortId) -> Option<(Origin, Route)> {
        let resolved = self.resolved.read().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = (resolved.get(&flow.ingress)?, resolved.get(&egress)?);
        let (action, longest) = match (*from, *to) {
            (Resolved::Container { .. }, Resolved::Direct { device, longest }) => {
                (Action::Direct { device }, Some(longest))
            }
            (
                Resolved::Container { .. },
                Resolved::Tunnel {
                    device,
                    ends,
                    remote_mac,
                    local_mac,
                    longest,
                },
            ) => {
                let action = Action::Vxlan {
                    device,
                    ends,
                    remote_mac,
                    local_mac,
                };
                (action, Some(longest))
            }
            (Resolved::Tunnel { ends, .. }, Resolved::Container { device }) => {
                let from = Some(ends);
                (Action::Local { device, from }, None)
            }
            (
                Resolved::Container { .. } | Resolved::Direct { .. },
                Resolved::Container { device },
            ) => (Action::Local { device, from: None }, None),
            _ => return None,
        };
        let origin = match *from {
            Resolved::Container { device } | Resolved::Direct { device, .. } => {
                Origin::Device(device)
            }
            Resolved::Tunnel { .. } | Resolved::Uplink { .. } => Origin::Tunnel(flow.network),
        };
        let route = Route {
            network: flow.network,
            ingress: flow.ingress,
            egress,
            action,
            longest,
        };
        Some((origin, route))
    }
}

/// Learns addresses from the routes of a previous daemon: both ends of a connection, before either route is reviewed.
/// Else each would be deleted because the other's address is unknown.
fn recall(current: &Current, learned: &Arc<Learned>) -> Result<(), Error> {
    let mut decider = Decider::new(Arc::clone(&current.table), Arc::clone(learned), 1);
    decider.begin(learned.now());
    current.sink.path.review(|key, route, used| {
        if let Some(flow) = flow_of(current, key, route) {
            // The lookup learns the source.
            let _ = decider.egress(&flow, used);
        }
        Review::Keep
    })
}

/// Whether frames of a route come from this port.
fn is_origin(port: Option<&Attachment>, key: &RouteKey, route: &Route) -> bool {
    match (port, key.origin, route.action) {
        (
            Some(Attachment::Container { device } | Attachment::Direct { device }),
            Origin::Device(origin),
            _,
        ) => *device == origin,
        (
            Some(Attachment::Tunnel { remote, .. }),
            Origin::Tunnel(_),
            Action::Local {
                from: Some(ends), ..
            },
        ) => *remote == ends.remote,
        _ => false,
    }
}

/// Reviews every route. `resets_used`: used routes are rewritten, which resets their flag.
fn review(current: &Current, learned: &Arc<Learned>, resets_used: bool) -> Result<(), Error> {
    let mut decider = Decider::new(Arc::clone(&current.table), Arc::clone(learned), 1);
    decider.begin(learned.now());
    current.sink.path.review(|key, route, used| {
        let Some(flow) = flow_of(current, key, route) else {
            return Review::Delete;
        };
        let Some(egress) = decider.egress(&flow, used) else {
            return Review::Delete;
        };
        match current.sink.route(&flow, egress) {
            Some((_, new)) if new == *route && !(used && resets_used) => Review::Keep,
            Some((_, new)) => Review::Replace(new),
            None => Review::Delete,
        }
    })
}

/// The flow of a route. None: the number of its port is another port's by now, from which none of its frames comes.
fn flow_of(current: &Current, key: &RouteKey, route: &Route) -> Option<Flow> {
    let port = current.attachments.get(&route.ingress);
    is_origin(port, key, route).then_some(Flow {
        ingress: route.ingress,
        network: route.network,
        source: key.source,
        destination: key.destination,
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
        // Neighbours appear, vanish and change their addresses.
        let resolved = resolve(&current.attachments);
        let mut known = current
            .sink
            .resolved
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != resolved {
            attach_uplinks(&current.sink.path, &resolved);
            *known = resolved;
            // Flows that could not be offloaded are decided again.
            learned.invalidate();
        }
        drop(known);
        // The next review, in a second, is the retry.
        let _ = review(&current, learned, reviews == 0);
        let ended = Instant::now();
        rest_until = ended + (ended - begun) * (SHARE - 1);
    }
}

/// Finds uplinks and neighbours. Ports without either are left to the daemon.
fn resolve(attachments: &HashMap<PortId, Attachment>) -> HashMap<PortId, Resolved> {
    let mut all = HashMap::new();
    if attachments.is_empty() {
        return all;
    }
    let Ok(mut links) = Handle::open() else {
        return all;
    };
    for (id, attachment) in attachments {
        let resolved = match *attachment {
            Attachment::Container { device } => Some(Resolved::Container { device }),
            Attachment::Direct { device } => mtu(&mut links, device).map(|mtu| Resolved::Direct {
                device,
                longest: max_frame(mtu),
            }),
            Attachment::Tunnel { remote, local } => tunnel(&mut links, remote, local),
        };
        all.extend(resolved.map(|resolved| (*id, resolved)));
    }
    all
}

fn mtu(links: &mut Handle, device: u32) -> Option<u32> {
    Some(links.link_by_index(device).ok()??.mtu_bytes)
}

fn max_frame(mtu: u32) -> u16 {
    u16::try_from(mtu + 14).unwrap_or(u16::MAX)
}

/// The uplink to a host on the same segment, and the host's Ethernet address.
fn tunnel(links: &mut Handle, remote: SocketAddrV4, local: SocketAddrV4) -> Option<Resolved> {
    let own = own_address(remote, local)?;
    let address = links
        .addresses()
        .ok()?
        .into_iter()
        .find(|known| known.address.address == own)?
        .address;
    if !shares_prefix(own, address.prefix_length, *remote.ip()) {
        return None;
    }
    let neighbours = links.neighbours().ok()?;
    let neighbour = neighbours.iter().find(|neighbour| {
        neighbour.interface == address.interface
            && neighbour.address == Some(IpAddr::V4(*remote.ip()))
    });
    let uplink = links.link_by_index(address.interface).ok()??;
    let IpAddr::V4(own) = own else { return None };
    let Some(remote_mac) = neighbour.and_then(|neighbour| neighbour.mac) else {
        return Some(Resolved::Uplink {
            device: uplink.index,
        });
    };
    Some(Resolved::Tunnel {
        device: uplink.index,
        ends: TunnelEnds {
            remote,
            local: SocketAddrV4::new(own, local.port()),
        },
        remote_mac: remote_mac.0,
        local_mac: uplink.mac?.0,
        longest: max_frame(uplink.mtu_bytes.saturating_sub(VXLAN_BYTES)),
    })
}

fn own_address(remote: SocketAddrV4, local: SocketAddrV4) -> Option<IpAddr> {
    if local.ip().is_unspecified() {
        return source_address(SocketAddr::V4(remote)).ok();
    }
    Some(IpAddr::V4(*local.ip()))
}

fn shares_prefix(own: IpAddr, prefix: u8, other: Ipv4Addr) -> bool {
    let IpAddr::V4(own) = own else { return false };
    let mask = u32::MAX
        .checked_shl(32 - u32::from(prefix.min(32)))
        .unwrap_or(0);
    u32::from(own) & mask == u32::from(other) & mask
}
