//! Over all explained packets: which cause owns how much of the tail.

use std::collections::BTreeMap;

use super::{Attribution, Cause, Remedy, remedy};

/// A percentile says nothing with fewer packets beyond it.
const FEWEST: usize = 10;

/// Who owns the time of the packets beyond one percentile.
#[derive(Debug, Clone, PartialEq)]
pub struct Blame {
    /// Which: 0.99, 0.999, ...
    pub quantile: f64,
    /// The latency there, in ns; here of the least slow that was explained.
    pub latency_ns: u64,
    pub beyond: usize,
    /// Of them, how many were explained: the slowest.
    pub explained: usize,
    /// Their time between the taps, in ns.
    pub total_ns: u64,
    /// The causes, the largest first.
    pub rows: Vec<BlameRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BlameRow {
    pub cause: Cause,
    /// Its part of the time, 0 to 1.
    pub share: f64,
    /// That time, in ns.
    pub time_ns: u64,
    /// Packets that it is the first cause of.
    pub first_of: usize,
    pub remedy: Option<Remedy>,
}

impl Blame {
    /// Part of the time that nothing explains, 0 to 1.
    #[must_use]
    pub fn unexplained(&self) -> f64 {
        let unknown =
            |row: &&BlameRow| matches!(row.cause, Cause::Unexplained | Cause::NotRecorded);
        // An empty sum of floats is -0.
        let of_rows = self.rows.iter().filter(unknown).map(|row| row.share);
        of_rows.fold(0.0, |all, share| all + share)
    }
}

/// The blame for what lies beyond a percentile; `None` with too few packets beyond it. Quantile 0 is
/// all that was explained.
#[must_use]
pub fn blame(attribution: &Attribution, quantile: f64) -> Option<Blame> {
    let beyond = if quantile > 0.0 {
        ((1.0 - quantile) * attribution.packets as f64).round() as usize
    } else {
        attribution.worst.len()
    };
    if beyond < FEWEST && quantile > 0.0 {
        return None;
    }
    let packets = &attribution.worst[..beyond.min(attribution.worst.len())];
    let mut times: BTreeMap<Cause, (u64, usize)> = BTreeMap::new();
    for packet in packets {
        for (cause, ns) in packet.by_cause() {
            times.entry(cause).or_default().0 += ns;
        }
        times.entry(packet.first.clone()).or_default().1 += 1;
    }
    let total_ns: u64 = times.values().map(|(ns, _)| ns).sum();
    let mut rows: Vec<BlameRow> = times
        .into_iter()
        .map(|(cause, (time_ns, first_of))| BlameRow {
            remedy: remedy(&cause),
            cause,
            share: time_ns as f64 / total_ns.max(1) as f64,
            time_ns,
            first_of,
        })
        .collect();
    rows.sort_by(|a, b| {
        b.time_ns
            .cmp(&a.time_ns)
            .then_with(|| a.cause.cmp(&b.cause))
    });
    Some(Blame {
        quantile,
        latency_ns: packets.last().map_or(0, super::Explained::latency_ns),
        beyond,
        explained: packets.len(),
        total_ns,
        rows,
    })
}
