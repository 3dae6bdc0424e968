//! A dispatcher's private cache of verdicts. Its size is fixed, so a guest that invents addresses evicts only entries.

use super::address::Address;
use crate::endpoints::port_id::PortId;

/// Ingress port, network and addresses of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Key {
    high: u64,
    low: u64,
}

impl Key {
    pub const fn new(ingress: PortId, network: u16, source: Address, destination: Address) -> Key {
        Key {
            high: destination << 16 | ingress.0 as u64,
            low: source << 16 | network as u64,
        }
    }

    pub const fn network(self) -> u16 {
        (self.low & 0xffff) as u16
    }

    pub const fn source(self) -> Address {
        self.low >> 16
    }

    pub const fn destination(self) -> Address {
        self.high >> 16
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CachedVerdict {
    One(PortId),
    NoRoute,
    Spoofed,
    /// The index of a list of ports.
    Many(u16),
}

#[derive(Debug, Clone, Copy)]
struct CacheEntry {
    key: Key,
    generation: u32,
    until: u32,
    verdict: CachedVerdict,
    traffic: FlowCounters,
}

/// Frames and bytes that took a cached verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounters {
    pub frames: u64,
    pub bytes: u64,
}

const WAYS: usize = 4;
const SETS: usize = 1024;

/// A set-associative cache of 4096 verdicts.
#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<CacheEntry>,
    /// The way of a set that is evicted next.
    turn: u8,
    /// Mixed into the hash of a key, so that a guest cannot choose keys that collide.
    seed: u64,
}

impl Cache {
    pub fn new(seed: u64) -> Cache {
        let empty = CacheEntry {
            key: Key::default(),
            generation: 0,
            until: 0,
            verdict: CachedVerdict::NoRoute,
            traffic: FlowCounters::default(),
        };
        Cache {
            entries: vec![empty; WAYS * SETS],
            turn: 0,
            seed: seed | 1,
        }
    }

    fn set(&self, key: Key) -> usize {
        let mixed = (key.high ^ key.low.rotate_left(29)).wrapping_mul(self.seed);
        let folded = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (folded >> 54) as usize % SETS * WAYS
    }

    /// The verdict about a key, if it belongs to this generation and has not expired. Counts a frame of `bytes` bytes.
    /// No verdict belongs to generation 0.
    #[inline]
    pub fn find(
        &mut self,
        key: Key,
        generation: u32,
        now: u32,
        bytes: u32,
    ) -> Option<CachedVerdict> {
        let first = self.set(key);
        let entry = self.entries[first..first + WAYS].iter_mut().find(|entry| {
            entry.key == key && entry.generation == generation && now < entry.until
        })?;
        entry.traffic.frames += 1;
        entry.traffic.bytes += u64::from(bytes);
        Some(entry.verdict)
    }

    /// Inserts a verdict that expires at second `until`; returns the counters of the evicted one.
    pub fn insert(
        &mut self,
        key: Key,
        generation: u32,
        until: u32,
        verdict: CachedVerdict,
    ) -> Option<(Key, FlowCounters)> {
        let first = self.set(key);
        let set = &mut self.entries[first..first + WAYS];
        let way = set
            .iter()
            .position(|entry| entry.key == key)
            .or_else(|| set.iter().position(|entry| entry.generation != generation))
            .unwrap_or_else(|| {
                self.turn = self.turn.wrapping_add(1);
                usize::from(self.turn) % WAYS
            });
        let before = set[way];
        set[way] = CacheEntry {
            key,
            generation,
            until,
            verdict,
            traffic: FlowCounters::default(),
        };
        (before.traffic.frames > 0).then_some((before.key, before.traffic))
    }

    pub fn take_traffic(&mut self) -> impl Iterator<Item = (Key, FlowCounters)> + '_ {
        let used = self.entries.iter_mut().filter(|e| e.traffic.frames > 0);
        used.map(|entry| (entry.key, std::mem::take(&mut entry.traffic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_expire_with_their_generation_and_time() {
        let mut cache = Cache::new(12345);
        let key = Key::new(PortId(1), 2, 0x0200_0000_0001, 0x0200_0000_0002);
        cache.insert(key, 1, 10, CachedVerdict::One(PortId(9)));
        assert_eq!(
            cache.find(key, 1, 9, 64),
            Some(CachedVerdict::One(PortId(9)))
        );
        assert_eq!(cache.find(key, 1, 10, 64), None);
        assert_eq!(cache.find(key, 2, 0, 64), None);
        let other = Key::new(PortId(1), 3, 0x0200_0000_0001, 0x0200_0000_0002);
        assert_eq!(cache.find(other, 1, 0, 64), None);
    }

    #[test]
    fn the_cache_never_grows() {
        let mut cache = Cache::new(1);
        for source in 0..100_000 {
            cache.insert(
                Key::new(PortId(0), 0, source, 5),
                1,
                10,
                CachedVerdict::NoRoute,
            );
        }
        let last = Key::new(PortId(0), 0, 99_999, 5);
        assert_eq!(cache.find(last, 1, 0, 64), Some(CachedVerdict::NoRoute));
        assert_eq!(cache.entries.len(), WAYS * SETS);
    }
}
