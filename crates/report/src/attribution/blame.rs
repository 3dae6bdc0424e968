//! Shares of the causes in the tail, over all explained packets.

use std::collections::BTreeMap;

use super::attribute::Attribution;
use super::cause::Cause;
use super::knobs::{Remedy, remedy};
use super::split::Explained;

/// Packets required beyond a percentile.
const MIN_BEYOND: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub struct Blame {
    /// 0.99, 0.999, ...
    pub quantile: f64,
    /// Latency at the quantile, in ns; of the fastest explained packet for quantile 0.
    pub latency_ns: u64,
    pub beyond: usize,
    /// Number of explained packets among them: the slowest.
    pub explained: usize,
    pub total_ns: u64,
    pub rows: Vec<BlameRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BlameRow {
    pub cause: Cause,
    /// Part of the time, 0 to 1.
    pub share: f64,
    pub time_ns: u64,
    pub first_of: usize,
    pub remedy: Option<Remedy>,
}

impl Blame {
    /// Unexplained part of the time, 0 to 1.
    #[must_use]
    pub fn unexplained(&self) -> f64 {
        let unknown =
            |row: &&BlameRow| matches!(row.cause, Cause::Unexplained | Cause::NotRecorded);
        // An empty sum of floats is -0.
        let of_rows = self.rows.iter().filter(unknown).map(|row| row.share);
        of_rows.fold(0.0, |all, share| all + share)
    }
}

/// Blame beyond a percentile; `None` with too few packets beyond it. Quantile 0 stands for all explained
/// packets.
#[must_use]
pub fn blame(attribution: &Attribution, quantile: f64) -> Option<Blame> {
    let beyond = if quantile > 0.0 {
        ((1.0 - quantile) * attribution.packets as f64).round() as usize
    } else {
        attribution.worst.len()
    };
    if beyond < MIN_BEYOND && quantile > 0.0 {
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
        latency_ns: packets.last().map_or(0, Explained::latency_ns),
        beyond,
        explained: packets.len(),
        total_ns,
        rows,
    })
}
