//! Where addresses were seen: shared by all dispatchers, asked only when a cache does not know.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use super::table::Address;
use crate::endpoints::PortId;

/// Most addresses of one port: a guest that invents addresses fills its own share only.
const MAX_OF_PORT: u32 = 4096;

/// Most addresses of all.
const MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Seen {
    port: PortId,
    at: u32,
}

#[derive(Debug, Default)]
struct Known {
    by_address: HashMap<(u32, Address), Seen>,
    of_port: HashMap<PortId, u32>,
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
        let Ok(known) = self.known.read() else { return };
        let seen = known.by_address.get(&key).copied();
        drop(known);
        if seen.is_some_and(|seen| seen.port == port && seen.at == now) {
            return;
        }
        let Ok(mut known) = self.known.write() else {
            return;
        };
        let Known {
            by_address,
            of_port,
        } = &mut *known;
        if let Some(seen) = by_address.get_mut(&key) {
            if seen.port != port {
                if let Some(count) = of_port.get_mut(&seen.port) {
                    *count = count.saturating_sub(1);
                }
                *of_port.entry(port).or_default() += 1;
                self.moves.fetch_add(1, Relaxed);
            }
            *seen = Seen { port, at: now };
            return;
        }
        let own = of_port.entry(port).or_default();
        if *own >= MAX_OF_PORT || by_address.len() >= MAX {
            // What has not been heard of for long makes room; a full share of live ones does not.
            by_address.retain(|_, seen| now.saturating_sub(seen.at) <= age);
            of_port.clear();
            for seen in by_address.values() {
                *of_port.entry(seen.port).or_default() += 1;
            }
        }
        let own = of_port.entry(port).or_default();
        if *own < MAX_OF_PORT && by_address.len() < MAX {
            *own += 1;
            by_address.insert(key, Seen { port, at: now });
        }
    }

    /// Where an address is, if it was heard of within `age` seconds.
    pub(super) fn find(
        &self,
        vni: u32,
        destination: Address,
        now: u32,
        age: u32,
    ) -> Option<PortId> {
        let known = self.known.read().ok()?;
        let seen = known.by_address.get(&(vni, destination))?;
        (now.saturating_sub(seen.at) <= age).then_some(seen.port)
    }

    /// Makes every dispatcher decide anew about what it has decided.
    pub fn doubt(&self) {
        self.moves.fetch_add(1, Relaxed);
    }

    /// Forgets what was learned at a port that is gone.
    pub fn forget(&self, port: PortId) {
        if let Ok(mut known) = self.known.write() {
            known.by_address.retain(|_, seen| seen.port != port);
            known.of_port.remove(&port);
            self.moves.fetch_add(1, Relaxed);
        }
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
