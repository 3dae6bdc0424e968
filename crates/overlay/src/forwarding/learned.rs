//! The learned addresses, shared by all dispatchers and read only on a cache miss.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use super::address::{Address, address};
use super::moved::{MoveError, MovedAddress, MovedAddresses, Source};
use crate::endpoints::port_id::PortId;

/// Maximum number of addresses of one port: a guest that invents addresses fills its own share only.
const MAX_OF_PORT: u32 = 4096;

const MAX: usize = 1 << 16;

/// Maximum number of moves of addresses to one port in a second. Each move invalidates every dispatcher's cache, so
/// two ports that claim one address by turns would slow down all others.
const MAX_MOVES: u32 = 256;

#[derive(Debug, Clone, Copy)]
struct Seen {
    port: PortId,
    at: u32,
}

/// The part of the table that one port uses.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    addresses: u32,
    /// Moves to the port in this second.
    moves: u32,
    second: u32,
}

impl Share {
    fn may_move(&self, now: u32) -> bool {
        self.second != now || self.moves < MAX_MOVES
    }

    fn count_move(&mut self, now: u32) {
        self.moves = if self.second == now {
            self.moves + 1
        } else {
            1
        };
        self.second = now;
    }
}

#[derive(Debug, Default)]
struct Known {
    by_address: HashMap<(u32, Address), Seen>,
    of_port: HashMap<PortId, Share>,
    /// The second of the last sweep.
    swept: Option<u32>,
    moved: MovedAddresses,
}

impl Known {
    fn has_room(&self, port: PortId) -> bool {
        let own = self.of_port.get(&port).map_or(0, |share| share.addresses);
        own < MAX_OF_PORT && self.by_address.len() < MAX
    }

    /// Whether learning this would change anything. Most frames end here, under a lock that all dispatchers can hold
    /// at once, however many addresses a port invents.
    fn is_news(&self, key: (u32, Address), port: PortId, now: u32) -> bool {
        match self.by_address.get(&key) {
            Some(seen) if seen.port == port => seen.at != now,
            Some(_) => self
                .of_port
                .get(&port)
                .is_none_or(|share| share.may_move(now)),
            None => self.swept != Some(now) || self.has_room(port),
        }
    }

    /// Drops addresses older than `age`. A sweep visits the whole table, so there is at most one per second.
    fn sweep(&mut self, now: u32, age: u32) {
        if self.swept == Some(now) {
            return;
        }
        self.swept = Some(now);
        let Known {
            by_address,
            of_port,
            ..
        } = self;
        by_address.retain(|_, seen| {
            let stays = now.saturating_sub(seen.at) <= age;
            if let Some(share) = of_port.get_mut(&seen.port).filter(|_| !stays) {
                share.addresses = share.addresses.saturating_sub(1);
            }
            stays
        });
    }
}

/// Learned addresses of all networks. Networks are identified by VNI, which survives a new table. Times are whole
/// seconds since the switch started.
#[derive(Debug)]
pub struct Learned {
    start: Instant,
    known: RwLock<Known>,
    /// Moves of addresses from one port to another: cached verdicts from before a move are stale.
    moves: AtomicU32,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned {
            start: Instant::now(),
            known: RwLock::default(),
            moves: AtomicU32::new(0),
        }
    }
}

impl Learned {
    #[must_use]
    pub const fn start(&self) -> Instant {
        self.start
    }

    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[must_use]
    pub fn moves(&self) -> u32 {
        self.moves.load(Relaxed)
    }

    pub(super) fn learn(&self, vni: u32, source: Address, port: PortId, now: u32, age: u32) {
        let key = (vni, source);
        let known = self.read();
        match known.moved.source(key, port, now, age) {
            Source::Free if known.is_news(key, port, now) => {}
            Source::Confirms | Source::Leaves => {}
            Source::Free | Source::Ignored => return,
        }
        drop(known);
        let mut known = self.write();
        // Another dispatcher may have held the lock meanwhile, here as below.
        match known.moved.source(key, port, now, age) {
            Source::Free => {}
            Source::Ignored => return,
            Source::Confirms => {
                // Other ports may learn it from now on, and their verdicts are cached.
                if known.moved.confirm(key, now) {
                    self.moves.fetch_add(1, Relaxed);
                }
                return;
            }
            Source::Leaves => {
                known.moved.leave(key);
                self.moves.fetch_add(1, Relaxed);
            }
        }
        if !known.by_address.contains_key(&key) && !known.has_room(port) {
            known.sweep(now, age);
        }
        if !known.is_news(key, port, now) {
            return;
        }
        let seen = Seen { port, at: now };
        let Known {
            by_address,
            of_port,
            ..
        } = &mut *known;
        let before = by_address.insert(key, seen).map(|before| before.port);
        if before == Some(port) {
            return;
        }
        let share = of_port.entry(port).or_default();
        share.addresses += 1;
        if let Some(before) = before {
            share.count_move(now);
            if let Some(other) = of_port.get_mut(&before) {
                other.addresses = other.addresses.saturating_sub(1);
            }
            self.moves.fetch_add(1, Relaxed);
        }
    }

    // The table is valid after any panic, and a switch that stops learning would not report it.
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port of an address, if it was seen within `age` seconds.
    pub(super) fn find(
        &self,
        vni: u32,
        destination: Address,
        now: u32,
        age: u32,
    ) -> Option<PortId> {
        let known = self.read();
        let seen = known.by_address.get(&(vni, destination))?;
        (now.saturating_sub(seen.at) <= age).then_some(seen.port)
    }

    /// The port that a command has moved an address to.
    pub(super) fn moved_to(&self, vni: u32, address: Address) -> Option<PortId> {
        self.read().moved.port((vni, address))
    }

    /// Whether an address was moved a moment ago.
    pub(super) fn has_just_moved(&self, vni: u32, address: Address, now: u64) -> bool {
        self.read().moved.is_recent((vni, address), now)
    }

    /// The port where an address was before a command has moved it.
    pub(super) fn moved_from(&self, vni: u32, address: Address) -> Option<PortId> {
        self.read().moved.before((vni, address))
    }

    /// Whether addresses may move at this revision. Errors: as [`Learned::relocate`].
    pub fn may_relocate(
        &self,
        vni: u32,
        addresses: impl IntoIterator<Item = [u8; 6]>,
        revision: u64,
    ) -> Result<(), MoveError> {
        let addresses: Vec<Address> = addresses.into_iter().map(address).collect();
        self.read().moved.check(vni, &addresses, revision)
    }

    /// Moves addresses to a port: all at once, from every dispatcher's next batch on. Errors: a revision that is not
    /// newer than the last one of each address; too many addresses. Nothing is changed then.
    pub fn relocate(
        &self,
        vni: u32,
        addresses: impl IntoIterator<Item = [u8; 6]>,
        port: PortId,
        revision: u64,
    ) -> Result<(), MoveError> {
        let addresses: Vec<Address> = addresses.into_iter().map(address).collect();
        let at = self.now();
        let mut known = self.write();
        known.moved.check(vni, &addresses, revision)?;
        for address in addresses {
            let key = (vni, address);
            let learned = known.by_address.remove(&key).map(|seen| seen.port);
            if let Some(share) = learned.and_then(|port| known.of_port.get_mut(&port)) {
                share.addresses = share.addresses.saturating_sub(1);
            }
            known.moved.put(key, port, revision, (at, learned));
        }
        self.moves.fetch_add(1, Relaxed);
        Ok(())
    }

    /// The addresses that were moved, by network and address.
    #[must_use]
    pub fn moved(&self) -> Vec<MovedAddress> {
        self.read().moved.list()
    }

    /// Forgets the moves in networks that are gone.
    pub fn keep_networks(&self, stays: impl Fn(u32) -> bool) {
        self.write().moved.keep_networks(stays);
    }

    pub fn invalidate(&self) {
        self.moves.fetch_add(1, Relaxed);
    }

    /// Forgets where an address was seen. Frames to it go to all ports until it is seen again.
    pub fn forget_address(&self, vni: u32, of: [u8; 6]) {
        let mut known = self.write();
        let seen = known.by_address.remove(&(vni, address(of)));
        if let Some(share) = seen.and_then(|seen| known.of_port.get_mut(&seen.port)) {
            share.addresses = share.addresses.saturating_sub(1);
            self.moves.fetch_add(1, Relaxed);
        }
    }

    /// Carries moved addresses over to ports that have other numbers now, all at once. What was learned stays behind.
    pub fn renumber_moved(&self, numbers: &HashMap<PortId, PortId>) {
        if self.write().moved.renumber(numbers) {
            self.moves.fetch_add(1, Relaxed);
        }
    }

    pub fn forget(&self, port: PortId) {
        let mut known = self.write();
        known.by_address.retain(|_, seen| seen.port != port);
        known.of_port.remove(&port);
        known.moved.forget(port);
        self.moves.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_addresses_fill_only_the_share_of_their_port() {
        let learned = Learned::default();
        for source in 0..u64::from(MAX_OF_PORT) * 2 {
            learned.learn(1, source * 2, PortId(1), 0, 300);
        }
        learned.learn(1, 0x10_0000_0000, PortId(2), 0, 300);
        assert_eq!(learned.find(1, 0x10_0000_0000, 0, 300), Some(PortId(2)));
        assert_eq!(learned.find(1, u64::from(MAX_OF_PORT) * 2, 0, 300), None);
        // Expired addresses make room.
        learned.learn(1, 0x20_0000_0000, PortId(1), 1000, 300);
        assert_eq!(learned.find(1, 0x20_0000_0000, 1000, 300), Some(PortId(1)));
    }

    /// While the table is full of live addresses, a frame from a new one takes no lock for writing and visits nothing.
    #[test]
    fn a_port_without_room_is_swept_for_once_a_second() {
        let learned = Learned::default();
        for source in 0..=u64::from(MAX_OF_PORT) {
            assert_eq!(learned.read().swept, None);
            learned.learn(1, source, PortId(1), 7, 300);
        }
        assert_eq!(learned.read().swept, Some(7));
        let is_news = |now| learned.read().is_news((1, 0x10_0000_0000), PortId(1), now);
        assert!(!is_news(7) && is_news(8));
        learned.learn(1, 0x10_0000_0000, PortId(1), 8, 300);
        assert_eq!(learned.read().swept, Some(8));
        assert!(!is_news(8));
    }

    #[test]
    fn a_forgotten_address_makes_room_and_is_learned_again() {
        let learned = Learned::default();
        let mac = [2, 0, 0, 0, 0, 1];
        learned.learn(1, address(mac), PortId(1), 7, 300);
        let moves = learned.moves();
        learned.forget_address(1, mac);
        assert_eq!(learned.find(1, address(mac), 7, 300), None);
        assert_eq!(learned.read().of_port[&PortId(1)].addresses, 0);
        assert!(learned.moves() > moves);
        learned.forget_address(1, mac);
        learned.learn(1, address(mac), PortId(2), 7, 300);
        assert_eq!(learned.find(1, address(mac), 7, 300), Some(PortId(2)));
    }

    #[test]
    fn moves_of_one_address_between_two_ports_are_limited() {
        let learned = Learned::default();
        for turn in 0..10_000 {
            learned.learn(1, 2, PortId(turn % 2), 7, 300);
        }
        assert!(learned.moves() <= 2 * MAX_MOVES, "{}", learned.moves());
        // The limit is per second.
        let holder = learned.find(1, 2, 7, 300).unwrap();
        let other = PortId(1 - holder.0);
        learned.learn(1, 2, other, 8, 300);
        assert_eq!(learned.find(1, 2, 8, 300), Some(other));
    }

    #[test]
    fn moves_are_counted_and_addresses_expire() {
        let learned = Learned::default();
        learned.learn(1, 2, PortId(1), 0, 300);
        learned.learn(1, 2, PortId(1), 5, 300);
        assert_eq!(learned.moves(), 0);
        learned.learn(1, 2, PortId(3), 6, 300);
        assert_eq!(learned.moves(), 1);
        assert_eq!(learned.find(1, 2, 306, 300), Some(PortId(3)));
        assert_eq!(learned.find(1, 2, 307, 300), None);
        assert_eq!(learned.find(2, 2, 6, 300), None);
    }
}
