//! Attaching the programs, and storing their routes.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{MapCore, MapFlags};

use super::attach;
use super::cable;
use super::error::Error;
use super::headroom::Headroom;
use super::layout::{Action, COUNTS_BYTES, Counts, KernelPort, KernelPortKind, Route, RouteKey};
use super::map::{clear, read, remove, write};
use super::object::{self, Maps, Owner, Programs};
use super::pairs::{Pair, Pairs};
use super::sys::Hook;
use crate::endpoints::PortId;
use crate::forwarding::FlowCounters;
use crate::sync::lock;

/// Default number of routes: 5 MiB.
pub const ROUTES: u32 = 65_536;

/// Routes per lookup call: more than one bucket of the map ever holds, which the call cannot divide.
const BATCH: u32 = 4096;

/// Key and value of a map.
type Entry = (Vec<u8>, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    Keep,
    Replace(Route),
    /// Delete the route: the next frame goes to the daemon.
    Delete,
}

#[derive(Debug)]
pub struct KernelPath {
    maps: Maps,
    programs: Programs,
    next_change: AtomicU32,
    pairs: Mutex<Pairs>,
    /// Handle of the filters, on kernels without tcx.
    handle: u32,
    /// Serialized: an uplink may be found while a container is attached.
    headroom: Mutex<Headroom>,
}

impl KernelPath {
    /// Continues with the path of a previous daemon of this name in this network namespace, or makes a new one for
    /// `room` routes. Also returns whether there was one.
    ///
    /// Attached programs are replaced by this version's. The taps of the previous daemon are gone with it:
    /// [`KernelPath::attach`] each port again with its new tap. Errors: a kernel without BPF, or a path of another
    /// version. Elsewhere the kernel's errors.
    pub fn open(name: &str, room: u32) -> Result<(KernelPath, bool), Error> {
        let owner = Owner::here(name)?;
        let handle = owner.hash().max(1);
        let found = object::find(&owner, handle)?;
        let was_there = found.is_some();
        let (maps, programs) = object::load(&owner, found, room.max(1))?;
        let last = read(&maps.changes, &0u32.to_ne_bytes(), CHANGE)?;
        let last = last.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
        let path = KernelPath {
            maps,
            programs,
            next_change: AtomicU32::new(last.unwrap_or(0).wrapping_add(1)),
            headroom: Mutex::new(Headroom::of(&owner)),
            pairs: Mutex::default(),
            handle,
        };
        path.invalidate()?;
        path.recall_pairs()?;
        if was_there {
            for port in path.ports()? {
                // The interface is gone, and its programs with it.
                if path.put(&port).is_err() {
                    path.forget_port(&port)?;
                }
            }
        }
        Ok((path, was_there))
    }

    fn program(&self, port: &KernelPort) -> Result<(BorrowedFd<'_>, Hook), Error> {
        let (program, at): (_, fn(u32) -> Hook) = match port.kind {
            KernelPortKind::Container => match cable::is_netkit(port.device)? {
                false => (&self.programs.from_container, Hook::Ingress),
                true => (&self.programs.from_netkit, Hook::NetkitPeer),
            },
            KernelPortKind::Direct => (&self.programs.from_direct, Hook::Ingress),
            KernelPortKind::Tunnel => (&self.programs.from_tunnel, Hook::Ingress),
            KernelPortKind::Shared => (&self.programs.from_shared, Hook::Ingress),
        };
        Ok((program.as_fd(), at(port.device)))
    }

    fn put(&self, port: &KernelPort) -> Result<(), Error> {
        let (program, hook) = self.program(port)?;
        attach::attach(program, hook, self.handle)
    }

    /// Attaches the path to an interface of the calling thread's network namespace, or updates its entry. Errors: a
    /// container's interface whose other end is not in another namespace.
    pub fn attach(&self, port: &KernelPort) -> Result<(), Error> {
        if port.kind == KernelPortKind::Container {
            cable::check_is_container(port.device)?;
        }
        let known = self.port(port.device)?;
        let whole = known.map_or(*port, |known| port.beside(&known));
        self.enter(&whole).inspect_err(|_| {
            // A port that is not attached leaves no entry: the interface's number may become another's.
            if known.is_none() {
                let _ = self.detach(port);
            }
        })?;
        // The tap of a previous daemon is gone, and its entry would be one more with each restart.
        let old = known.and_then(|known| known.tap);
        if let Some(old) = old.filter(|old| whole.tap != Some(*old)) {
            remove(&self.maps.ports, &old.to_ne_bytes(), PORTS)?;
        }
        self.give_headroom()
    }

    fn enter(&self, port: &KernelPort) -> Result<(), Error> {
        // The entry first: without it the program would let frames pass.
        self.write_port(port)?;
        self.put(port)?;
        if let Some(tap) = port.tap {
            let (key, value) = (tap.to_ne_bytes(), port.tap_bytes());
            write(&self.maps.ports, &key, &value, PORTS)?;
            let program = self.programs.from_daemon.as_fd();
            attach::attach(program, Hook::Ingress(tap), self.handle)?;
        }
        Ok(())
    }

    /// Gives containers headroom for tunnel headers, if there are tunnels.
    fn give_headroom(&self) -> Result<(), Error> {
        let headroom = lock(&self.headroom);
        let ports = self.ports()?;
        let has_tunnels = ports.iter().any(KernelPort::has_tunnels);
        let containers: BTreeSet<u32> = ports
            .iter()
            .filter(|port| has_tunnels && port.kind == KernelPortKind::Container)
            .map(|port| port.device)
            .collect();
        // Headroom is an optimization.
        let _ = headroom.give(&containers);
        Ok(())
    }

    /// Detaches from the uplinks of direct links, which are the host's own interfaces, and removes the headroom. The path
    /// stays at containers and tunnels.
    pub fn leave(&self) {
        for port in self.ports().unwrap_or_default() {
            if matches!(port.kind, KernelPortKind::Direct | KernelPortKind::Shared) {
                let kind = KernelPortKind::Direct;
                // Without a daemon the program passes unknown frames, so a failure is harmless.
                let _ = self.detach(&KernelPort { kind, ..port });
            }
        }
        let headroom = lock(&self.headroom);
        // A remaining bridge is harmless.
        let _ = headroom.give(&BTreeSet::new());
    }

    /// Detaches the path from an interface, and deletes all routes that begin or end there. What fails is told, and the
    /// rest is done.
    pub fn detach(&self, port: &KernelPort) -> Result<(), Error> {
        let rest = self.port(port.device)?;
        let rest = rest.and_then(|whole| whole.without(port.kind));
        let detached = match &rest {
            Some(rest) => self.put(rest),
            None => {
                let (program, hook) = self.program(port)?;
                attach::detach(program, hook, self.handle)
            }
        };
        let tap_detached = port.tap.map_or(Ok(()), |tap| {
            let program = self.programs.from_daemon.as_fd();
            attach::detach(program, Hook::Ingress(tap), self.handle)
        });
        let forgotten = self.forget_port(port);
        let kept = rest.map_or(Ok(()), |rest| self.write_port(&rest));
        detached.and(tap_detached).and(forgotten).and(kept)?;
        self.give_headroom()
    }

    fn forget_port(&self, port: &KernelPort) -> Result<(), Error> {
        for entry in [Some(port.device), port.tap].into_iter().flatten() {
            remove(&self.maps.ports, &entry.to_ne_bytes(), PORTS)?;
        }
        // Links share an uplink of tunnels, and none has its number.
        let is_its = |route: &Route| match port.kind {
            KernelPortKind::Tunnel => is_tunnelled(route, port.device),
            _ => route.ingress == port.id || route.egress == port.id,
        };
        self.review(|_, route, _| {
            if is_its(route) {
                Review::Delete
            } else {
                Review::Keep
            }
        })
    }

    fn write_port(&self, port: &KernelPort) -> Result<(), Error> {
        let key = port.device.to_ne_bytes();
        write(&self.maps.ports, &key, &port.to_bytes(), PORTS)
    }

    fn port(&self, device: u32) -> Result<Option<KernelPort>, Error> {
        let value = read(&self.maps.ports, &device.to_ne_bytes(), PORTS)?;
        Ok(value.and_then(|bytes| KernelPort::parse(&bytes)))
    }

    pub fn ports(&self) -> Result<Vec<KernelPort>, Error> {
        let mut ports = Vec::new();
        for key in self.maps.ports.keys() {
            let value = read(&self.maps.ports, &key, PORTS)?;
            ports.extend(value.and_then(|bytes| KernelPort::parse(&bytes)));
        }
        ports.sort_by_key(|port: &KernelPort| port.device);
        Ok(ports)
    }

    /// Stores a route: frames of this key bypass the daemon from now on. Never blocks, so dispatchers may call it.
    pub fn store(&self, key: &RouteKey, route: &Route) -> Result<(), Error> {
        let value = route.to_bytes(self.pair(key, route));
        write(&self.maps.routes, &key.to_bytes(), &value, ROUTE)?;
        self.invalidate()
    }

    /// The index of the counters of a route's addresses.
    fn pair(&self, key: &RouteKey, route: &Route) -> u32 {
        let (index, is_new) = lock(&self.pairs).index(&Pair::of(key, route));
        if is_new {
            // A previous daemon may have counted another pair there. A failure leaves the sum of both.
            let _ = super::pairs::clear(&self.maps.pairs, index);
        }
        index
    }

    /// Takes the pairs of a previous daemon's routes, whose counters go on.
    fn recall_pairs(&self) -> Result<(), Error> {
        let mut pairs = lock(&self.pairs);
        for (key, value) in self.routes()? {
            let parsed = RouteKey::parse(&key).zip(Route::parse(&value));
            if let Some(((key, (route, _)), index)) = parsed.zip(Route::pair(&value)) {
                pairs.recall(Pair::of(&key, &route), index);
            }
        }
        Ok(())
    }

    /// Traffic that stayed in the kernel, by its addresses; without a pair, what further addresses had.
    pub fn traffic(&self) -> Result<Vec<(Option<Pair>, FlowCounters)>, Error> {
        let known = lock(&self.pairs).all();
        let read = |index| super::pairs::traffic(&self.maps.pairs, index);
        known
            .into_iter()
            .map(|(pair, index)| Ok((pair, read(index)?)))
            .collect()
    }

    fn routes(&self) -> Result<Vec<Entry>, Error> {
        let routes = &self.maps.routes;
        let entries = routes.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let entries = entries.map_err(|error| Error::map(ROUTE, &error))?;
        Ok(entries.collect())
    }

    /// Invalidates the cached routes of all CPUs. Every change has a number of its own, so a route cached before it is
    /// never taken for a later one.
    fn invalidate(&self) -> Result<(), Error> {
        let number = self.next_change.fetch_add(1, Ordering::Relaxed);
        let bytes = number.to_ne_bytes();
        write(&self.maps.changes, &0u32.to_ne_bytes(), &bytes, CHANGE)
    }

    pub fn route(&self, key: &RouteKey) -> Result<Option<Route>, Error> {
        let value = read(&self.maps.routes, &key.to_bytes(), ROUTE)?;
        Ok(value
            .and_then(|bytes| Route::parse(&bytes))
            .map(|(route, _)| route))
    }

    /// Reviews all routes, one by one, while frames follow them: a route that is kept or replaced serves every frame
    /// meanwhile. `decide` also learns whether the route was used since it was written, which keeps learned addresses
    /// alive; replaced routes count as unused again.
    pub fn review(
        &self,
        mut decide: impl FnMut(&RouteKey, &Route, bool) -> Review,
    ) -> Result<(), Error> {
        // Read all of them first, in large calls: a walk over a map that changes starts over.
        for (bytes, value) in self.routes()? {
            let (Some(key), Some((route, used))) = (RouteKey::parse(&bytes), Route::parse(&value))
            else {
                continue;
            };
            match decide(&key, &route, used) {
                Review::Keep => {}
                Review::Replace(new) => {
                    let value = new.to_bytes(self.pair(&key, &new));
                    write(&self.maps.routes, &bytes, &value, ROUTE)?;
                }
                Review::Delete => remove(&self.maps.routes, &bytes, ROUTE)?,
            }
        }
        // Once for all. Even without a change: a route that the LRU map evicted may still be in a CPU's cache.
        self.invalidate()
    }

    pub fn counts(&self, id: PortId) -> Result<Counts, Error> {
        let key = u32::from(id.0).to_ne_bytes();
        let values = self.maps.counts.lookup_percpu(&key, MapFlags::ANY);
        let values = values.map_err(|error| Error::map(COUNTS, &error))?;
        let mut counts = Counts::default();
        for value in values.into_iter().flatten() {
            counts.add(&value);
        }
        Ok(counts)
    }

    /// Starts the counts of a number that another port had before from zero.
    pub fn clear_counts(&self, id: PortId) -> Result<(), Error> {
        let key = u32::from(id.0).to_ne_bytes();
        clear(&self.maps.counts, &key, COUNTS_BYTES, COUNTS)
    }
}

const PORTS: &str = "use the ports";
const ROUTE: &str = "use the routes";
const CHANGE: &str = "say that routes have changed";
const COUNTS: &str = "use the counters";

fn is_tunnelled(route: &Route, uplink: u32) -> bool {
    matches!(route.action, Action::Vxlan { device, .. } if device == uplink)
}
