//! Who sends how much to whom: VNET's monitoring, from which traffic is placed and rerouted.

use std::collections::HashMap;

use latlab_model::spec::Mac;

use super::cache::{Carried, Key};
use super::table::{self, Address, Table};

/// Most pairs that are told apart. Whoever invents addresses only fills the rest.
const MAX_PAIRS: usize = 1 << 14;

/// Frames and bytes by network, source and destination.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    pairs: HashMap<(u32, Mac, Mac), Carried>,
    /// What did not fit.
    rest: Carried,
}

fn mac(address: Address) -> Mac {
    Mac(table::mac(address))
}

impl Matrix {
    pub(super) fn add(&mut self, table: &Table, key: Key, carried: Carried) {
        let vni = table.vni(key.network()).unwrap_or_default();
        self.count((vni, mac(key.source()), mac(key.destination())), carried);
    }

    fn count(&mut self, pair: (u32, Mac, Mac), carried: Carried) {
        let is_full = self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&pair);
        let sum = match is_full {
            true => &mut self.rest,
            false => self.pairs.entry(pair).or_default(),
        };
        sum.frames += carried.frames;
        sum.bytes += carried.bytes;
    }

    /// Adds what another dispatcher counted.
    pub fn merge(&mut self, other: &Matrix) {
        for (pair, carried) in &other.pairs {
            self.count(*pair, *carried);
        }
        self.rest.frames += other.rest.frames;
        self.rest.bytes += other.rest.bytes;
    }

    /// The pairs: VNI, source, destination and what was sent, the most bytes first.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u32, Mac, Mac, Carried)> {
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

    /// What belongs to pairs that are not told apart.
    #[must_use]
    pub const fn rest(&self) -> Carried {
        self.rest
    }
}
