//! Addresses that a command has moved to a port.
//!
//! A move is an order, and learning is a guess. So frames from elsewhere, such as the last ones of the place before, do
//! not take the address back, and only a newer revision moves it again. Learning has its way again once the guest was
//! seen at its new place: at once for other ports, and for the place before after the network's age without the guest.

use std::collections::HashMap;

use super::address::{Address, mac};
use crate::endpoints::port_id::PortId;

/// Maximum number of addresses whose revisions are stored.
const MAX_MOVED: usize = 16_384;

/// How long after a move frames that were on their way before it still pass, in ns.
const LATE: u64 = 2_000_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// Where it is; none once its port was closed or another port has learned it.
    pub port: Option<PortId>,
    /// Where it was.
    before: Option<PortId>,
    revision: u64,
    /// When it moved, on the clock that dispatchers share, in ns.
    at: u64,
    /// The second in which the guest was last seen at its new place.
    seen: Option<u32>,
}

/// Whether a frame's source is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The address is learned as any other.
    Free,
    /// The guest is at its new place: note the second.
    Confirms,
    /// Nothing is to be learned.
    Ignored,
    /// Another port has the address from now on.
    Leaves,
}

/// Why addresses were not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveError {
    /// The address was moved at this revision already, or at a newer one.
    Stale { address: [u8; 6], revision: u64 },
    /// The maximum number of addresses whose revisions are stored.
    TooMany(usize),
}

/// An address that was moved, for those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedAddress {
    pub vni: u32,
    pub address: [u8; 6],
    pub port: Option<PortId>,
    pub revision: u64,
    /// Whether the guest was seen at its new place.
    pub is_seen: bool,
}

#[derive(Debug, Default)]
pub(super) struct MovedAddresses(HashMap<(u32, Address), Moved>);

impl MovedAddresses {
    pub fn port(&self, key: (u32, Address)) -> Option<PortId> {
        self.0.get(&key)?.port
    }

    /// Whether frames of those who do not know yet may be on their way to the place before.
    pub fn is_recent(&self, key: (u32, Address), now: u64) -> bool {
        let moved = self.0.get(&key);
        moved.is_some_and(|moved| now.saturating_sub(moved.at) < LATE)
    }

    pub fn before(&self, key: (u32, Address)) -> Option<PortId> {
        self.0.get(&key)?.before
    }

    /// The meaning of a frame from this port with this source.
    pub fn source(&self, key: (u32, Address), port: PortId, now: u32, age: u32) -> Source {
        let Some(moved) = self.0.get(&key) else {
            return Source::Free;
        };
        match (moved.port, moved.seen) {
            (None, _) => Source::Free,
            (Some(place), seen) if place == port => match seen == Some(now) {
                true => Source::Ignored,
                false => Source::Confirms,
            },
            (_, None) => Source::Ignored,
            (_, Some(_)) if moved.before != Some(port) => Source::Leaves,
            (_, Some(at)) if now.saturating_sub(at) > age => Source::Leaves,
            _ => Source::Ignored,
        }
    }

    /// The guest was seen at its new place; true for the first time.
    pub fn confirm(&mut self, key: (u32, Address), now: u32) -> bool {
        let moved = self.0.get_mut(&key);
        moved.is_some_and(|moved| moved.seen.replace(now).is_none())
    }

    pub fn leave(&mut self, key: (u32, Address)) {
        if let Some(moved) = self.0.get_mut(&key) {
            moved.port = None;
        }
    }

    /// Whether all of these may move at this revision.
    pub fn check(&self, vni: u32, addresses: &[Address], revision: u64) -> Result<(), MoveError> {
        let known = |address: &&Address| self.0.get(&(vni, **address));
        for address in addresses {
            if let Some(moved) = known(&address).filter(|moved| moved.revision >= revision) {
                return Err(MoveError::Stale {
                    address: mac(*address),
                    revision: moved.revision,
                });
            }
        }
        let new = addresses.iter().filter(|address| known(address).is_none());
        if self.0.len() + new.count() > MAX_MOVED {
            return Err(MoveError::TooMany(MAX_MOVED));
        }
        Ok(())
    }

    /// Moves an address; `learned`: the port that has learned it. `at`: the time, in ns.
    pub fn put(
        &mut self,
        key: (u32, Address),
        port: PortId,
        revision: u64,
        (at, learned): (u64, Option<PortId>),
    ) {
        let before = self.port(key).or(learned).filter(|before| *before != port);
        let moved = Moved {
            port: Some(port),
            before,
            revision,
            at,
            seen: None,
        };
        self.0.insert(key, moved);
    }

    /// Forgets a port; revisions stay.
    pub fn forget(&mut self, port: PortId) {
        for moved in self.0.values_mut() {
            moved.port = moved.port.filter(|own| *own != port);
            moved.before = moved.before.filter(|own| *own != port);
        }
    }

    /// Carries addresses over to ports that have other numbers now; true if there were any.
    pub fn renumber(&mut self, numbers: &HashMap<PortId, PortId>) -> bool {
        let mut is_any = false;
        for moved in self.0.values_mut() {
            for port in [&mut moved.port, &mut moved.before].into_iter().flatten() {
                if let Some(new) = numbers.get(port) {
                    *port = *new;
                    is_any = true;
                }
            }
        }
        is_any
    }

    pub fn keep_networks(&mut self, stays: impl Fn(u32) -> bool) {
        self.0.retain(|(vni, _), _| stays(*vni));
    }

    pub fn list(&self) -> Vec<MovedAddress> {
        let mut all: Vec<MovedAddress> = self
            .0
            .iter()
            .map(|((vni, address), moved)| MovedAddress {
                vni: *vni,
                address: mac(*address),
                port: moved.port,
                revision: moved.revision,
                is_seen: moved.seen.is_some(),
            })
            .collect();
        all.sort_by_key(|moved| (moved.vni, moved.address));
        all
    }
}
