//! Taps: when each of our packets passes one point of the network.
//!
//! A tap is a classifier at an interface's ingress or egress, so that it sees the frame where it enters
//! or leaves the device under test and nothing of the device's own work. It is the software form of an
//! optical splitter (Daichendt 2022, 6.1): the packet goes on unchanged, a copy of its identity and the
//! time stay behind.

mod attach;
pub mod matching;

pub use attach::{Point, Side, Tap};

use latlab_wire::trace::{TAP_RECORD_BYTES, TapRecord};

use crate::sys::Shared;

/// Everything one tap saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Its records, in the order of their arrival.
    pub records: Records,
    /// Packets of ours for which there was no room.
    pub no_room: u64,
    /// Frames that were none of ours.
    pub foreign: u64,
}

/// A tap's records, where the kernel wrote them: millions of them are not copied.
pub struct Records(Place);

enum Place {
    Mapped { memory: Shared, count: usize },
    Listed(Vec<TapRecord>),
}

impl Records {
    pub(crate) fn mapped(memory: Shared, count: usize) -> Records {
        Records(Place::Mapped { memory, count })
    }

    /// How many there are, those that were never completed included.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Mapped { count, .. } => *count,
            Place::Listed(all) => all.len(),
        }
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at a place; `None` beyond the end, and for one that was never completed.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<TapRecord> {
        let record = match &self.0 {
            Place::Mapped { memory, count } if at < *count => {
                let bytes: [u8; TAP_RECORD_BYTES] = memory.read(at * TAP_RECORD_BYTES);
                TapRecord::from_bytes(&bytes)
            }
            Place::Mapped { .. } => return None,
            Place::Listed(all) => *all.get(at)?,
        };
        (record.time_ns != 0).then_some(record)
    }

    /// All that were completed, each with its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, TapRecord)> {
        (0..self.len()).filter_map(|at| Some((at, self.get(at)?)))
    }
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
