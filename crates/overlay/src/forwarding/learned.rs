//! Where addresses were seen: shared by all dispatchers, asked only when a cache does not know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use super::table::Address;
use crate::endpoints::PortId;

/// Most addresses of one port: a guest that invents addresses fills its own share only.
const MAX_OF_PORT: u32 = 4096;

/// Most addresses of all.
const MAX: usize = 1 << 16;

/// Most moves of addresses to one port in a second. Each makes every dispatcher decide anew, so two ports
/// that claim one address by turns would take the caches from everybody.
const MAX_MOVES: u32 = 256;

#[derive(Debug, Clone, Copy)]
struct Seen {
    port: PortId,
    at: u32,
}

/// What one port has of the table.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    addresses: u32,
    /// Moves to it, in this second.
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
    /// When old addresses were last looked for.
    swept: Option<u32>,
}

impl Known {
    /// Whether there is room for one address more of a port.
    fn has_room(&self, port: PortId) -> bool {
        let own = self.of_port.get(&port).map_or(0, |share| share.addresses);
        own < MAX_OF_PORT && self.by_address.len() < MAX
    }

    /// Whether to note this would change anything: most frames are answered here, under a lock that all
    /// dispatchers may have at once, however many addresses a port invents.
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

    /// What has not been heard of for long makes room. A sweep takes as long as the table is large, so there
    /// is one in a second at most.
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

/// Learned addresses of all networks. Networks are known by their VNI here, which stays when the
/// table is compiled anew. Times are whole seconds since the switch started.
#[derive(Debug)]
pub struct Learned {
    /// When the switch started: what all times count from.
    start: Instant,
    known: RwLock<Known>,
    /// Counts the moves of addresses from one port to another: cached decisions from before one are
    /// stale.
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
    /// When the switch started.
    #[must_use]
    pub const fn start(&self) -> Instant {
        self.start
    }

    /// Nanoseconds since then.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How many moves there were.
    #[must_use]
    pub fn moves(&self) -> u32 {
        self.moves.load(Relaxed)
    }

    /// Notes that an address was seen at a port.
    pub(super) fn learn(&self, vni: u32, source: Address, port: PortId, now: u32, age: u32) {
        let key = (vni, source);
        if !self.read().is_news(key, port, now) {
            return;
        }
        let mut known = self.write();
        if !known.by_address.contains_key(&key) && !known.has_room(port) {
            known.sweep(now, age);
        }
        // Another dispatcher may have had the lock meanwhile.
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

    // No panic leaves a table that cannot be used, and a switch that does not learn any more would not say so.
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an address is, if it was heard of within `age` seconds.
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

    /// Makes every dispatcher decide anew about what it has decided.
    pub fn doubt(&self) {
        self.moves.fetch_add(1, Relaxed);
    }

    /// Forgets what was learned at a port that is gone.
    pub fn forget(&self, port: PortId) {
        let mut known = self.write();
        known.by_address.retain(|_, seen| seen.port != port);
        known.of_port.remove(&port);
        self.moves.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_invents_addresses_fills_its_own_share_only() {
        let learned = Learned::default();
        for source in 0..u64::from(MAX_OF_PORT) * 2 {
            learned.learn(1, source * 2, PortId(1), 0, 300);
        }
        learned.learn(1, 0x10_0000_0000, PortId(2), 0, 300);
        assert_eq!(learned.find(1, 0x10_0000_0000, 0, 300), Some(PortId(2)));
        assert_eq!(learned.find(1, u64::from(MAX_OF_PORT) * 2, 0, 300), None);
        // Once the invented ones are old, they make room.
        learned.learn(1, 0x20_0000_0000, PortId(1), 1000, 300);
        assert_eq!(learned.find(1, 0x20_0000_0000, 1000, 300), Some(PortId(1)));
    }

    #[test]
    fn two_ports_that_claim_one_address_by_turns_are_believed_a_limited_number_of_times() {
        let learned = Learned::default();
        for turn in 0..10_000 {
            learned.learn(1, 2, PortId(turn % 2), 7, 300);
        }
        assert!(learned.moves() <= 2 * MAX_MOVES, "{}", learned.moves());
        // One that moves in the next second is believed at once.
        let holder = learned.find(1, 2, 7, 300).unwrap();
        let other = PortId(1 - holder.0);
        learned.learn(1, 2, other, 8, 300);
        assert_eq!(learned.find(1, 2, 8, 300), Some(other));
    }

    #[test]
    fn a_move_is_noticed_and_age_ends_belief() {
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
