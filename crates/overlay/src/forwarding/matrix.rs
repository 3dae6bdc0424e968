//! Traffic by source and destination: VNET's monitoring, on which placement and rerouting are based.

use std::collections::HashMap;

use latlab_model::spec::Mac;

use super::address::{self, Address};
use super::cache::{FlowCounters, Key};
use super::table::Table;

/// Maximum number of pairs that are counted apart. Further (invented) addresses go to the rest.
const MAX_PAIRS: usize = 1 << 14;

#[derive(Debug, Clone, Default)]
pub struct Matrix {
    pairs: HashMap<(u32, Mac, Mac), FlowCounters>,
    rest: FlowCounters,
}

fn mac(address: Address) -> Mac {
    Mac(address::mac(address))
}

impl Matrix {
    pub(super) fn add(&mut self, table: &Table, key: Key, carried: FlowCounters) {
        let vni = table.vni(key.network()).unwrap_or_default();
        self.count((vni, mac(key.source()), mac(key.destination())), carried);
    }

    fn count(&mut self, pair: (u32, Mac, Mac), carried: FlowCounters) {
        let is_full = self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&pair);
        let sum = if is_full {
            &mut self.rest
        } else {
            self.pairs.entry(pair).or_default()
        };
        sum.frames += carried.frames;
        sum.bytes += carried.bytes;
    }

    /// Traffic that others have counted: of a pair, or of all that have no counters of their own.
    pub fn add_traffic(&mut self, pair: Option<(u32, Mac, Mac)>, carried: FlowCounters) {
        match pair {
            _ if carried.frames == 0 => {}
            Some(pair) => self.count(pair, carried),
            None => {
                self.rest.frames += carried.frames;
                self.rest.bytes += carried.bytes;
            }
        }
    }

    pub fn merge(&mut self, other: &Matrix) {
        for (pair, carried) in &other.pairs {
            self.count(*pair, *carried);
        }
        self.rest.frames += other.rest.frames;
        self.rest.bytes += other.rest.bytes;
    }

    /// The pairs as (VNI, source, destination, traffic), most bytes first.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u32, Mac, Mac, FlowCounters)> {
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .map(|((vni, source, destination), carried)| (*vni, *source, *destination, *carried))
            .collect();
        pairs.sort_by_key(|(vni, source, destination, carried)| {
            (
                std::cmp::Reverse(carried.bytes),
                *vni,
                *source,
                *destination,
            )
        });
        pairs
    }

    #[must_use]
    pub const fn rest(&self) -> FlowCounters {
        self.rest
    }
}
