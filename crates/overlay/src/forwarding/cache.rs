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

    /// The decision about a key, if it is of this generation and not too old. Generation 0 is none.
    #[inline]
    pub fn find(&self, key: Key, generation: u32, now: u32) -> Option<Kept> {
        let first = self.set(key);
        self.entries[first..first + WAYS]
            .iter()
            .find(|entry| entry.key == key && entry.generation == generation && now < entry.until)
            .map(|entry| entry.kept)
    }

    /// Keeps a decision until a second that is not in it any more.
    pub fn keep(&mut self, key: Key, generation: u32, until: u32, kept: Kept) {
        let first = self.set(key);
        let set = &mut self.entries[first..first + WAYS];
        let place = set
            .iter()
            .position(|entry| entry.key == key || entry.generation != generation)
            .unwrap_or_else(|| {
                self.turn = self.turn.wrapping_add(1);
                usize::from(self.turn) % WAYS
            });
        set[place] = Entry {
            key,
            generation,
            until,
            kept,
        };
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
        assert_eq!(cache.find(key, 1, 9), Some(Kept::One(PortId(9))));
        assert_eq!(cache.find(key, 1, 10), None);
        assert_eq!(cache.find(key, 2, 0), None);
        let other = Key::new(PortId(1), 3, 0x0200_0000_0001, 0x0200_0000_0002);
        assert_eq!(cache.find(other, 1, 0), None);
    }

    #[test]
    fn it_never_grows() {
        let mut cache = Cache::new(1);
        for source in 0..100_000 {
            cache.keep(Key::new(PortId(0), 0, source, 5), 1, 10, Kept::Nowhere);
        }
        let last = Key::new(PortId(0), 0, 99_999, 5);
        assert_eq!(cache.find(last, 1, 0), Some(Kept::Nowhere));
        assert_eq!(cache.entries.len(), WAYS * SETS);
    }
}
