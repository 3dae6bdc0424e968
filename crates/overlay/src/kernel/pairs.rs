//! Counters of traffic from one address to another, which routes name by an index.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::error::Error;
use super::layout::{Mac, Route, RouteKey, TRAFFIC_BYTES, add_traffic};
use crate::forwarding::FlowCounters;

/// Number of counters (`overlay_pairs`). The first is of all pairs that have none of their own.
const MAX_PAIRS: u32 = 4096;
const REST: u32 = 0;

/// The addresses of frames in a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// VNI.
    pub network: u32,
    pub source: Mac,
    pub destination: Mac,
}

impl Pair {
    pub(super) fn of(key: &RouteKey, route: &Route) -> Pair {
        Pair {
            network: route.network,
            source: key.source,
            destination: key.destination,
        }
    }
}

/// Which counters are whose. A pair keeps its own for as long as the daemon lives, because counters never fall.
#[derive(Debug)]
pub(super) struct Pairs {
    known: HashMap<Pair, u32>,
    next: u32,
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs {
            known: HashMap::new(),
            next: REST + 1,
        }
    }
}

impl Pairs {
    /// The index of a pair, and whether it has just been given.
    pub fn index(&mut self, pair: &Pair) -> (u32, bool) {
        if let Some(index) = self.known.get(pair) {
            return (*index, false);
        }
        if self.next >= MAX_PAIRS {
            return (REST, false);
        }
        let index = self.next;
        self.next += 1;
        self.known.insert(*pair, index);
        (index, true)
    }

    /// A pair that has its index already.
    pub fn recall(&mut self, pair: Pair, index: u32) {
        if (REST + 1..MAX_PAIRS).contains(&index) {
            self.known.insert(pair, index);
            self.next = self.next.max(index + 1);
        }
    }

    /// All of them, and the rest.
    pub fn all(&self) -> Vec<(Option<Pair>, u32)> {
        let known = self.known.iter();
        let known = known.map(|(pair, index)| (Some(*pair), *index));
        known.chain([(None, REST)]).collect()
    }
}

const PAIRS: &str = "read the counters of addresses";

pub(super) fn traffic(map: &MapHandle, index: u32) -> Result<FlowCounters, Error> {
    let values = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(|error| Error::map(PAIRS, &error))?;
    let mut traffic = FlowCounters::default();
    for value in values.into_iter().flatten() {
        add_traffic(&mut traffic, &value);
    }
    Ok(traffic)
}

pub(super) fn clear(map: &MapHandle, index: u32) -> Result<(), Error> {
    super::map::clear(map, &index.to_ne_bytes(), TRAFFIC_BYTES, PAIRS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u32) -> Pair {
        let [_, _, high, low] = number.to_be_bytes();
        Pair {
            network: 7,
            source: [2, 0, 0, 0, high, low],
            destination: [2; 6],
        }
    }

    #[test]
    fn pairs_keep_their_counters_and_share_one_when_there_are_too_many() {
        let mut pairs = Pairs::default();
        for number in 1..MAX_PAIRS {
            assert_eq!(pairs.index(&pair(number)), (number, true));
        }
        assert_eq!(pairs.index(&pair(1)), (1, false));
        assert_eq!(pairs.index(&pair(MAX_PAIRS)), (REST, false));
        assert_eq!(pairs.all().len(), MAX_PAIRS as usize);
    }

    #[test]
    fn counters_of_a_previous_daemon_stay_with_their_pairs() {
        let mut pairs = Pairs::default();
        pairs.recall(pair(5), 9);
        pairs.recall(pair(6), MAX_PAIRS);
        pairs.recall(pair(7), REST);
        assert_eq!(pairs.index(&pair(5)), (9, false));
        assert_eq!(pairs.index(&pair(6)), (10, true));
    }

    #[test]
    fn the_programs_have_as_many_counters() {
        let source = include_str!("../../bpf/layout.h");
        let map = source.split("} overlay_pairs").next().unwrap();
        let map = &map[map.rfind("struct {").unwrap()..];
        assert!(map.contains(&format!("max_entries, {MAX_PAIRS})")), "{map}");
    }
}
