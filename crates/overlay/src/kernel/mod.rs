//! The path inside the kernel, for containers.
//!
//! A container's frames would cross into user space and back only to be told what the last one was
//! told. So the daemon's decisions are also kept in a bounded map of the kernel, by (interface or tunnel's
//! network, source, destination), and small programs at the interfaces follow them: into another container of this host
//! (`bpf_redirect_peer`), out of a wire as they are (a direct link), or out of a wire in VXLAN, whose
//! headers the program writes and takes off itself. Large frames stay whole and checksums uncomputed
//! all the way (Cui 2013, 4.3, one step further: no copy at all).
//!
//! ```text
//! container ─ cable ─► from_container ┬─ route known ─► the other container, or the wire
//! wire, direct link ──► from_direct ──┴─ else ─► tap of the port ─► the daemon decides, and `keep`s it here
//!                                       └─ at a wire also the host's stack: the host may use it for itself
//! wire, VXLAN ────────► from_tunnel ──┬─ route known ─► the container
//!                                     └─ else ─► the stack ─► the daemon's socket of that link
//! the daemon ─► tap of the port ─► from_daemon ─► the container, or the wire of a direct link
//! ```
//!
//! What was decided stays in force when the daemon dies: programs and maps belong to the interfaces. A
//! daemon that is started again finds them by name and goes on ([`KernelPath::open`]).
//!
//! A container's cable is a veth pair or, better where the kernel has it, a netkit pair (`cable`): there the
//! program is run by whoever sends, so that a frame is queued only once on its way to the wire.
//!
//! Never decided here: broadcasts and multicasts (the daemon's, up to a rate), frames from one link to
//! another, VLAN tags into a tunnel, datagrams still to be cut (UDP GSO) into a tunnel, frames longer
//! than the way takes.

mod attach;
mod cable;
mod error;
mod headroom;
mod layout;
mod object;
mod sys;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::endpoints::PortId;
use attach::Hook;
use cable::Cable;
pub use error::Error;
use headroom::Headroom;
use layout::State;
pub use layout::{Counts, Ends, Key, Mac, Origin, Port, PortKind, Rate, Route, Way};
use object::{Maps, Owner, Programs};

/// How many routes are kept when nothing else is said: 5 MiB of them.
pub const ROUTES: u32 = 65_536;

/// Routes that one call brings: more than one bucket of the map ever holds, which the call cannot divide.
const BATCH: u32 = 4096;

/// What becomes of a route that is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// It is still right.
    Keep,
    /// This is right instead.
    Replace(Route),
    /// There is none any more: the daemon wants to see the next frame.
    Forget,
}

/// The programs and maps of one daemon.
#[derive(Debug)]
pub struct KernelPath {
    maps: Maps,
    programs: Programs,
    /// The number of the next change.
    next_change: AtomicU32,
    /// What its filters are called where programs cannot stand by themselves.
    handle: u32,
    /// One at a time: a wire may be found while a container is attached.
    headroom: Mutex<Headroom>,
}

impl KernelPath {
    /// Finds the path that a daemon of this name has left in this network namespace, and goes on with
    /// it; or makes a new one with room for so many routes. Says whether there was one.
    ///
    /// The programs are always this version's: those at the interfaces are replaced. The taps of the
    /// daemon before have gone with it; [`KernelPath::attach`] each port again with its new one.
    ///
    /// # Errors
    ///
    /// A kernel without BPF, or a path of another version.
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
            handle,
        };
        path.changed()?;
        if was_there {
            for port in path.ports()? {
                // An interface that went away took its filter along.
                if path.put(&port).is_err() {
                    path.forget_port(&port)?;
                }
            }
        }
        Ok((path, was_there))
    }

    /// The program of a port, and where it belongs.
    fn program(&self, port: &Port) -> Result<(BorrowedFd<'_>, Hook), Error> {
        let (program, at): (_, fn(u32) -> Hook) = match port.kind {
            PortKind::Container => match cable::at(port.device)? {
                Cable::Veth => (&self.programs.from_container, Hook::Entrance),
                Cable::Netkit => (&self.programs.from_netkit, Hook::FarExit),
            },
            PortKind::Direct => (&self.programs.from_direct, Hook::Entrance),
            PortKind::Tunnel => (&self.programs.from_tunnel, Hook::Entrance),
        };
        Ok((program.as_fd(), at(port.device)))
    }

    fn put(&self, port: &Port) -> Result<(), Error> {
        let (program, hook) = self.program(port)?;
        attach::attach(program, hook, self.handle)
    }

    /// Puts the path at an interface of the calling thread's network namespace, or changes what is
    /// known about one where it is already.
    ///
    /// # Errors
    ///
    /// A container's interface that is no end of a cable with its other end elsewhere; the kernel's refusal.
    pub fn attach(&self, port: &Port) -> Result<(), Error> {
        if port.kind == PortKind::Container {
            cable::must_lead_elsewhere(port.device)?;
        }
        // Known before frames come: the other way round they would pass by.
        write(
            &self.maps.ports,
            &port.device.to_ne_bytes(),
            &port.to_bytes(),
            PORTS,
        )?;
        self.put(port)?;
        if let Some(tap) = port.tap {
            write(
                &self.maps.ports,
                &tap.to_ne_bytes(),
                &port.tap_bytes(),
                PORTS,
            )?;
            attach::attach(
                self.programs.from_daemon.as_fd(),
                Hook::Entrance(tap),
                self.handle,
            )?;
        }
        self.give_headroom()
    }

    /// Containers have room for headers where there are tunnels, as far as it can be had.
    fn give_headroom(&self) -> Result<(), Error> {
        let headroom = self.headroom.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = self.ports()?;
        let of_kind = |kind| ports.iter().filter(move |port| port.kind == kind);
        let containers: BTreeSet<u32> = match of_kind(PortKind::Tunnel).next() {
            Some(_) => of_kind(PortKind::Container)
                .map(|port| port.device)
                .collect(),
            None => BTreeSet::new(),
        };
        // Without it frames take the same way, a little more slowly.
        let _ = headroom.give(&containers);
        Ok(())
    }

    /// Takes away what would outlast the interfaces, and leaves the wires of direct links, which are the host's
    /// own interfaces. The path stays at containers and tunnels.
    pub fn leave(&self) {
        for port in self.ports().unwrap_or_default() {
            if port.kind == PortKind::Direct {
                // Without a daemon its program passes what it does not know, so a refusal harms nobody.
                let _ = self.detach(&port);
            }
        }
        let headroom = self.headroom.lock().unwrap_or_else(PoisonError::into_inner);
        // Of use to nobody, and of no harm.
        let _ = headroom.give(&BTreeSet::new());
    }

    /// Takes the path away from an interface, with all routes that begin or end there.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn detach(&self, port: &Port) -> Result<(), Error> {
        let (program, hook) = self.program(port)?;
        attach::detach(program, hook, self.handle)?;
        if let Some(tap) = port.tap {
            attach::detach(
                self.programs.from_daemon.as_fd(),
                Hook::Entrance(tap),
                self.handle,
            )?;
        }
        self.forget_port(port)?;
        self.give_headroom()
    }

    fn forget_port(&self, port: &Port) -> Result<(), Error> {
        for entry in [Some(port.device), port.tap].into_iter().flatten() {
            remove(&self.maps.ports, &entry.to_ne_bytes(), PORTS)?;
        }
        // Many links share a tunnel's wire, and none has its number.
        let is_its = |route: &Route| match port.kind {
            PortKind::Tunnel => device_of(route) == port.device,
            _ => route.ingress == port.id || route.egress == port.id,
        };
        self.review(|_, route, _| match is_its(route) {
            true => Review::Forget,
            false => Review::Keep,
        })
    }

    /// The interfaces where the path is.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn ports(&self) -> Result<Vec<Port>, Error> {
        let mut ports = Vec::new();
        for key in self.maps.ports.keys() {
            let value = read(&self.maps.ports, &key, PORTS)?;
            ports.extend(value.and_then(|bytes| Port::parse(&bytes)));
        }
        ports.sort_by_key(|port: &Port| port.device);
        Ok(ports)
    }

    /// Frames of this key go this way from now on, without the daemon. No waiting: a dispatcher may do it.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn keep(&self, key: &Key, route: &Route) -> Result<(), Error> {
        write(&self.maps.routes, &key.to_bytes(), &route.to_bytes(), ROUTE)?;
        self.changed()
    }

    /// The daemon wants to see the frames of this key again.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn forget(&self, key: &Key) -> Result<(), Error> {
        remove(&self.maps.routes, &key.to_bytes(), ROUTE)?;
        self.changed()
    }

    /// Every processor looks all its routes up anew. No two changes have the same number, so that what was
    /// looked up before this one is never taken for what was looked up after it.
    fn changed(&self) -> Result<(), Error> {
        let number = self.next_change.fetch_add(1, Ordering::Relaxed);
        let bytes = number.to_ne_bytes();
        write(&self.maps.changes, &0u32.to_ne_bytes(), &bytes, CHANGE)
    }

    /// The route of a key, believed or not.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn route(&self, key: &Key) -> Result<Option<Route>, Error> {
        let value = read(&self.maps.routes, &key.to_bytes(), ROUTE)?;
        Ok(value
            .and_then(|bytes| Route::parse(&bytes))
            .map(|(route, _)| route))
    }

    /// Looks at all routes again, one by one, while frames follow them: a route that is kept or
    /// replaced serves every frame meanwhile. `decide` is also told whether a frame has gone that way
    /// since the route was last written, which is what keeps a learned address alive; routes that are
    /// replaced count as unused again.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn review(
        &self,
        mut decide: impl FnMut(&Key, &Route, bool) -> Review,
    ) -> Result<(), Error> {
        // All first, many at a call: a walk over a map that changes starts over.
        let entries = self
            .maps
            .routes
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(|error| failed(ROUTE, &error))?;
        let entries: Vec<(Vec<u8>, Vec<u8>)> = entries.collect();
        for (bytes, value) in entries {
            let (Some(key), Some((route, used))) = (Key::parse(&bytes), Route::parse(&value))
            else {
                continue;
            };
            match decide(&key, &route, used) {
                Review::Keep => {}
                Review::Replace(new) => write(&self.maps.routes, &bytes, &new.to_bytes(), ROUTE)?,
                Review::Forget => remove(&self.maps.routes, &bytes, ROUTE)?,
            }
        }
        // Once for all of them: each number has every processor look all its routes up anew.
        // A route that had to make room for others is not among the keys, but may still be at hand somewhere.
        self.changed()
    }

    /// Routes older than this generation are not believed any more: all at once, in one write. Those
    /// that are to survive get the new generation first ([`KernelPath::review`]).
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn set_floor(&self, generation: u32) -> Result<(), Error> {
        let mut state = self.state()?;
        state.floor = generation;
        write(
            &self.maps.state,
            &0u32.to_ne_bytes(),
            &state.to_bytes(),
            STATE,
        )?;
        self.changed()
    }

    /// The oldest generation that is believed.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn floor(&self) -> Result<u32, Error> {
        Ok(self.state()?.floor)
    }

    fn state(&self) -> Result<State, Error> {
        let value = read(&self.maps.state, &0u32.to_ne_bytes(), STATE)?;
        value
            .and_then(|bytes| State::parse(&bytes))
            .ok_or_else(|| Error::Map {
                action: STATE,
                reason: "there is none".into(),
            })
    }

    /// What was counted about a port or link, all processors together.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn counts(&self, id: PortId) -> Result<Counts, Error> {
        let key = u32::from(id.0).to_ne_bytes();
        let values = self.maps.counts.lookup_percpu(&key, MapFlags::ANY);
        let mut counts = Counts::default();
        for value in values
            .map_err(|error| failed(COUNTS, &error))?
            .into_iter()
            .flatten()
        {
            counts.add(&value);
        }
        Ok(counts)
    }
}

const PORTS: &str = "use the ports";
const ROUTE: &str = "use the routes";
const STATE: &str = "use the state";
const CHANGE: &str = "say that routes have changed";
const COUNTS: &str = "read the counters";

fn device_of(route: &Route) -> u32 {
    match route.way {
        Way::Local { device, .. } | Way::Direct { device } | Way::Vxlan { device, .. } => device,
    }
}

fn failed(action: &'static str, error: &libbpf_rs::Error) -> Error {
    Error::Map {
        action,
        reason: error.to_string(),
    }
}

fn write(map: &MapHandle, key: &[u8], value: &[u8], action: &'static str) -> Result<(), Error> {
    map.update(key, value, MapFlags::ANY)
        .map_err(|error| failed(action, &error))
}

fn read(map: &MapHandle, key: &[u8], action: &'static str) -> Result<Option<Vec<u8>>, Error> {
    map.lookup(key, MapFlags::ANY)
        .map_err(|error| failed(action, &error))
}

/// What is not there is gone already.
fn remove(map: &MapHandle, key: &[u8], action: &'static str) -> Result<(), Error> {
    match map.delete(key) {
        Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(failed(action, &error)),
        _ => Ok(()),
    }
}
