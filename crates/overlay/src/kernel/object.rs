//! Loads the programs, and finds the maps of a previous daemon.
//!
//! Nothing is pinned: a program lives while it is attached, and its maps as long as the program. A killed daemon
//! therefore leaves exactly the state that still works. Its maps are found by their name, layout, owner and namespace.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder};

use super::attach;
use super::error::Error;
use super::layout::{NAME_BYTES, STATE_BYTES, State, VERSION};
use super::sys::Hook;
use latlab_bpf::{listen, said};

const STATE: &str = "overlay_state";
const PORTS: &str = "overlay_ports";
const ROUTES: &str = "overlay_routes";
const CHANGES: &str = "overlay_changes";
const COUNTS: &str = "overlay_counts";
const PAIRS: &str = "overlay_pairs";

#[derive(Debug)]
pub(super) struct Maps {
    pub state: MapHandle,
    pub ports: MapHandle,
    pub routes: MapHandle,
    pub changes: MapHandle,
    pub counts: MapHandle,
    pub pairs: MapHandle,
}

#[derive(Debug)]
pub(super) struct Programs {
    pub from_container: OwnedFd,
    pub from_netkit: OwnedFd,
    pub from_direct: OwnedFd,
    pub from_daemon: OwnedFd,
    pub from_tunnel: OwnedFd,
    pub from_shared: OwnedFd,
}

/// Identity of a kernel path: daemons of one network namespace have different names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub namespace: u64,
    pub name: [u8; NAME_BYTES],
}

impl Owner {
    /// A hash that survives a restart (FNV-1a).
    pub fn hash(&self) -> u32 {
        self.name.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }

    /// The owner of this name in the calling thread's network namespace.
    pub fn here(name: &str) -> Result<Owner, Error> {
        let mut bytes = [0; NAME_BYTES];
        match bytes.get_mut(..name.len()) {
            Some(room) => room.copy_from_slice(name.as_bytes()),
            None => return Err(Error::Name(name.to_owned())),
        }
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net")
            .map_err(|error| Error::map("find the network namespace", &error))?;
        Ok(Owner {
            namespace: namespace.st_ino,
            name: bytes,
        })
    }
}

/// The maps of this owner, if its programs are still attached. Any process with `CAP_BPF`, such as a container, can make
/// maps that look alike; attaching a program in this namespace takes `CAP_NET_ADMIN` here.
pub(super) fn find(owner: &Owner, handle: u32) -> Result<Option<Maps>, Error> {
    for info in MapInfoIter::default() {
        if info.ty != MapType::Array
            || info.value_size as usize != STATE_BYTES
            || info.name.as_bytes() != STATE.as_bytes()
        {
            continue;
        }
        // A map may vanish meanwhile.
        let Ok(map) = MapHandle::from_map_id(info.id) else {
            continue;
        };
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let Some(state) = value.ok().flatten().and_then(|bytes| State::parse(&bytes)) else {
            continue;
        };
        if (state.namespace, state.name) != (owner.namespace, owner.name) {
            continue;
        }
        let mut others = siblings(info.id);
        let Some(ports) = others.remove(PORTS) else {
            continue;
        };
        if !are_in_force(&ports, &map, info.id, handle) {
            continue;
        }
        let mut take = |name| others.remove(name);
        let parts = (take(ROUTES), take(CHANGES), take(COUNTS), take(PAIRS));
        // Another version may have other maps.
        let (VERSION, (Some(routes), Some(changes), Some(counts), Some(pairs))) =
            (state.version, parts)
        else {
            let name = String::from_utf8_lossy(&state.name);
            return Err(Error::OtherVersion {
                name: name.trim_end_matches('\0').to_owned(),
            });
        };
        return Ok(Some(Maps {
            state: map,
            ports,
            routes,
            changes,
            counts,
            pairs,
        }));
    }
    Ok(None)
}

/// Whether a program with this state is attached to an interface among `ports`, in this namespace.
fn are_in_force(ports: &MapHandle, state: &MapHandle, state_id: u32, handle: u32) -> bool {
    ports.keys().any(|key| {
        let device = key.try_into().map(u32::from_ne_bytes);
        device.is_ok_and(|device| {
            let hooks = [Hook::Ingress(device), Hook::NetkitPeer(device)];
            hooks
                .into_iter()
                .any(|hook| attach::is_attached(hook, (state_id, state.as_fd()), handle))
        })
    })
}

/// The maps of the programs that use this one, by their names.
fn siblings(state_id: u32) -> HashMap<String, MapHandle> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut programs = ProgInfoIter::with_query_opts(options);
    let program =
        programs.find(|program| program.map_ids.contains(&state_id) && program.map_ids.len() > 4);
    let ids = program.map_or_else(Vec::new, |program| program.map_ids);
    let maps = ids
        .into_iter()
        .filter_map(|id| MapHandle::from_map_id(id).ok());
    maps.map(|map| (map.name().to_string_lossy().into_owned(), map))
        .collect()
}

/// Loads the programs, with the maps of `found` or with new ones for `room` routes.
pub(super) fn load(
    owner: &Owner,
    found: Option<Maps>,
    room: u32,
) -> Result<(Maps, Programs), Error> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.bpf.o"));
    listen();
    let failed = |error: libbpf_rs::Error| Error::Load(said(&error));
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(failed)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let old = found.as_ref().and_then(|maps| match name.as_str() {
            STATE => Some(&maps.state),
            PORTS => Some(&maps.ports),
            ROUTES => Some(&maps.routes),
            CHANGES => Some(&maps.changes),
            COUNTS => Some(&maps.counts),
            PAIRS => Some(&maps.pairs),
            _ => None,
        });
        match old {
            Some(old) => map.reuse_fd(old.as_fd()).map_err(failed)?,
            None if name == ROUTES => map.set_max_entries(room).map_err(failed)?,
            None if name.ends_with(".rodata") => {
                if let Some(value) = map.initial_value_mut() {
                    value[0] = u8::from(is_preemptible());
                }
            }
            None => {}
        }
    }
    let object = open.load().map_err(failed)?;
    let programs = Programs {
        from_container: program(&object, "from_container")?,
        from_netkit: program(&object, "from_netkit")?,
        from_direct: program(&object, "from_direct")?,
        from_daemon: program(&object, "from_daemon")?,
        from_tunnel: program(&object, "from_tunnel")?,
        from_shared: program(&object, "from_shared")?,
    };
    if let Some(maps) = found {
        return Ok((maps, programs));
    }
    let maps = Maps {
        state: map(&object, STATE)?,
        ports: map(&object, PORTS)?,
        routes: map(&object, ROUTES)?,
        changes: map(&object, CHANGES)?,
        counts: map(&object, COUNTS)?,
        pairs: map(&object, PAIRS)?,
    };
    let state = State {
        namespace: owner.namespace,
        name: owner.name,
        version: VERSION,
    };
    maps.state
        .update(&0u32.to_ne_bytes(), &state.to_bytes(), MapFlags::ANY)
        .map_err(failed)?;
    Ok((maps, programs))
}

/// Whether softirqs preempt each other on one CPU (`PREEMPT_RT`).
fn is_preemptible() -> bool {
    std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1")
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let mut maps = object.maps();
    let map = maps.find(|map| map.name().to_str() == Some(name));
    let map = map.ok_or_else(|| Error::Load(format!("it has no map {name}")))?;
    MapHandle::try_from(&map).map_err(|error| Error::Load(said(&error)))
}

fn program(object: &Object, name: &str) -> Result<OwnedFd, Error> {
    let mut programs = object.progs();
    let program = programs.find(|program| program.name().to_str() == Some(name));
    let program = program.ok_or_else(|| Error::Load(format!("it has no program {name}")))?;
    program
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::Load(error.to_string()))
}
