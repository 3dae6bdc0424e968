//! A dispatcher's own memory of decisions: of fixed size, so that inventing addresses costs only
//! those who do it.

use super::table::Address;
use crate::endpoints::PortId;

/// What a decision is about.
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

    /// The index of the network.
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

/// A decision as it is kept: where to, as one port or as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// One port.
    One(PortId),
    /// Nowhere: there is no route.
    Nowhere,
    /// Not allowed: the source address belongs to another port.
    Spoofed,
    /// Many: the number of a list.
    Many(u16),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    generation: u32,
    until: u32,
    kept: Kept,
    traffic: Carried,
}

/// Frames and bytes that followed a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

const WAYS: usize = 4;
const SETS: usize = 1024;

/// 4096 decisions.
#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<Entry>,
    /// Which of a set is replaced next.
    turn: u8,
    /// Mixed into the place of a key, so that nobody outside knows which keys collide.
    seed: u64,
}

impl Cache {
    pub fn new(seed: u64) -> Cache {
        let empty = Entry {
            key: Key::default(),
            generation: 0,
            until: 0,
            kept: Kept::Nowhere,
            traffic: Carried::default(),
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

    /// The decision about a key, if it is of this generation and not too old, for a frame of so
    /// many bytes. Generation 0 is none.
    #[inline]
    pub fn find(&mut self, key: Key, generation: u32, now: u32, bytes: u32) -> Option<Kept> {
        let first = self.set(key);
        let entry = self.entries[first..first + WAYS].iter_mut().find(|entry| {
            entry.key == key && entry.generation == generation && now < entry.until
        })?;
        entry.traffic.frames += 1;
        entry.traffic.bytes += u64::from(bytes);
        Some(entry.kept)
    }

    /// Keeps a decision until a second that is not in it any more; returns what followed the one
    /// that had its place.
    pub fn keep(
        &mut self,
        key: Key,
        generation: u32,
        until: u32,
        kept: Kept,
    ) -> Option<(Key, Carried)> {
        let first = self.set(key);
        let set = &mut self.entries[first..first + WAYS];
        let place = set
            .iter()
            .position(|entry| entry.key == key)
            .or_else(|| set.iter().position(|entry| entry.generation != generation))
            .unwrap_or_else(|| {
                self.turn = self.turn.wrapping_add(1);
                usize::from(self.turn) % WAYS
            });
        let before = set[place];
        set[place] = Entry {
            key,
            generation,
            until,
            kept,
            traffic: Carried::default(),
        };
        (before.traffic.frames > 0).then_some((before.key, before.traffic))
    }

    /// Takes what followed the decisions since it was last asked.
    pub fn take_traffic(&mut self) -> impl Iterator<Item = (Key, Carried)> + '_ {
        let carried = self.entries.iter_mut().filter(|e| e.traffic.frames > 0);
        carried.map(|entry| (entry.key, std::mem::take(&mut entry.traffic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_found_in_its_generation_and_time_only() {
        let mut cache = Cache::new(12345);
        let key = Key::new(PortId(1), 2, 0x0200_0000_0001, 0x0200_0000_0002);
        cache.keep(key, 1, 10, Kept::One(PortId(9)));
        assert_eq!(cache.find(key, 1, 9, 64), Some(Kept::One(PortId(9))));
        assert_eq!(cache.find(key, 1, 10, 64), None);
        assert_eq!(cache.find(key, 2, 0, 64), None);
        let other = Key::new(PortId(1), 3, 0x0200_0000_0001, 0x0200_0000_0002);
        assert_eq!(cache.find(other, 1, 0, 64), None);
    }

    #[test]
    fn it_never_grows() {
        let mut cache = Cache::new(1);
        for source in 0..100_000 {
            cache.keep(Key::new(PortId(0), 0, source, 5), 1, 10, Kept::Nowhere);
        }
        let last = Key::new(PortId(0), 0, 99_999, 5);
        assert_eq!(cache.find(last, 1, 0, 64), Some(Kept::Nowhere));
        assert_eq!(cache.entries.len(), WAYS * SETS);
    }
}
