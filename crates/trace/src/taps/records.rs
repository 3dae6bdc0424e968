//! The records of a tap.

use std::sync::Arc;

use latlab_wire::trace::{TAP_RECORD_BYTES, TapRecord};

use crate::sys::Shared;

#[derive(Debug, Default)]
pub struct Seen {
    /// Its records, in the order of their arrival.
    pub records: Records,
    pub no_room: u64,
    pub foreign: u64,
}

/// A tap's records, in the kernel's memory: millions of them are not copied.
pub struct Records(Place);

enum Place {
    Mapped {
        memory: Arc<Shared>,
        count: usize,
        /// Indexes in the order of time, if the records are not.
        order: Option<Vec<u32>>,
    },
    Listed(Vec<TapRecord>),
}

impl Records {
    pub(crate) fn mapped(memory: Arc<Shared>, count: usize) -> Records {
        let order = in_order(count, |at| record(&memory, at).time_ns);
        Records(Place::Mapped {
            memory,
            count,
            order,
        })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Mapped { count, order, .. } => order.as_ref().map_or(*count, Vec::len),
            Place::Listed(all) => all.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at an index; `None` beyond the end, and for an incomplete one.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<TapRecord> {
        let record = match &self.0 {
            Place::Mapped {
                memory,
                count,
                order,
            } if at < *count => {
                let at = match order {
                    Some(order) => *order.get(at)? as usize,
                    None => at,
                };
                record(memory, at)
            }
            Place::Mapped { .. } => return None,
            Place::Listed(all) => *all.get(at)?,
        };
        (record.time_ns != 0).then_some(record)
    }

    /// All complete records, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, TapRecord)> {
        (0..self.len()).filter_map(|at| Some((at, self.get(at)?)))
    }
}

/// The record at a place of a tap's memory.
pub(super) fn record(memory: &Shared, at: usize) -> TapRecord {
    let bytes: [u8; TAP_RECORD_BYTES] = memory.read(at * TAP_RECORD_BYTES);
    TapRecord::from_bytes(&bytes)
}

/// Indexes of complete records (time 0 is incomplete) in the order of time, if that is another: with several
/// CPUs, each has its own stretches.
fn in_order(count: usize, time: impl Fn(usize) -> u64) -> Option<Vec<u32>> {
    let completed = (0..count).filter(|&at| time(at) != 0);
    if completed.clone().is_sorted_by_key(&time) {
        return None;
    }
    let mut all: Vec<u32> = completed.map(|at| at as u32).collect();
    all.sort_unstable_by_key(|&at| (time(at as usize), at));
    Some(all)
}

impl Default for Records {
    fn default() -> Self {
        Records(Place::Listed(Vec::new()))
    }
}

impl From<Vec<TapRecord>> for Records {
    fn from(all: Vec<TapRecord>) -> Self {
        Records(Place::Listed(all))
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_several_processors_come_in_the_order_of_time() {
        let order = |times: &[u64]| in_order(times.len(), |at| times[at]);
        assert_eq!(order(&[3, 4, 0, 9, 9]), None, "they do already");
        assert_eq!(order(&[3, 7, 0, 4, 8]), Some(vec![0, 3, 1, 4]));
    }
}
