//! Packets of two points, each of the first with the same one of the second.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use latlab_model::results::Counters;

use crate::format::Sample;

/// A packet at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub time_ns: i64,
    pub key: u64,
    /// Hash of where it comes from and goes to.
    pub ends: u64,
}

/// A cycle of a counter of 32 bits in nanoseconds, as some cards stamp with.
pub const WRAP_NS: i64 = 1 << 32;
/// Latencies of neighbours that differ by this much less or more than a cycle differ by a cycle.
const JUMP_TOLERANCE_NS: u64 = 100_000_000;

/// Packets on their way from the first point to the second.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// In the order of the first point.
    pub samples: Vec<Sample>,
    pub counters: Counters,
    /// Packets of either point that are not told apart: equal ones, not as many at one point as at the other.
    pub alike: u64,
    /// Packets of either point that went the other way.
    pub other_way: u64,
    /// Packets of either point from and to where none is at both: the machine's own, as ARP, and those of others.
    pub elsewhere: u64,
    /// Packets of either point from before its first or after its last match.
    pub outside: u64,
    /// Directions that were measured.
    pub ends: HashSet<u64>,
}

impl Matched {
    pub fn latencies(&self) -> Vec<i64> {
        self.samples.iter().filter_map(|s| s.latency_ns).collect()
    }

    /// How often the latency of neighbours differs by a cycle: the counter of one point has wrapped, and not that of the
    /// other.
    pub fn jumps_of_a_cycle(&self) -> u64 {
        let latencies = self.latencies();
        let is_jump = |pair: &&[i64]| {
            let difference = pair[0].abs_diff(pair[1]);
            difference.abs_diff(WRAP_NS as u64) <= JUMP_TOLERANCE_NS
        };
        latencies.windows(2).filter(is_jump).count() as u64
    }
}

/// The fate of a packet at the other point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Absent,
    /// The place of its partner.
    Matched(usize),
    /// A copy of one that has a partner.
    Copy,
    Alike,
}

/// Matches packets. Both lists are in the order of time.
pub fn matched(before: &[Seen], after: &[Seen]) -> Matched {
    let (fates, behind) = fates(before, after);
    let partner = |at: usize| match fates[at] {
        Fate::Matched(partner) => Some(partner),
        _ => None,
    };
    let pairs = (0..before.len()).filter_map(|at| Some((at, partner(at)?)));
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let negative = |(at, partner): &(usize, usize)| after[*partner].time_ns < before[*at].time_ns;
    let ends = |(at, _): &(usize, usize)| before[*at].ends;
    let against = against(pairs.iter().map(|pair| (ends(pair), negative(pair))));
    let crossing: HashSet<u64> = pairs.iter().map(ends).collect();
    let forward = pairs.iter().filter(|pair| !against.contains(&ends(pair)));
    let forward: Vec<(usize, usize)> = forward.copied().collect();

    let mut found = Matched {
        ends: forward.iter().map(ends).collect(),
        ..Matched::default()
    };
    let start = forward.first().map_or(0, |(at, _)| before[*at].time_ns);
    let arrivals = arrivals(&forward, &mut found.counters);
    let window = span(forward.iter().map(|pair| pair.0));
    for (at, seen) in before.iter().enumerate() {
        match fates[at] {
            Fate::Alike => found.alike += 1,
            _ if against.contains(&seen.ends) => found.other_way += 1,
            _ if !crossing.contains(&seen.ends) => found.elsewhere += 1,
            _ if !window.contains(&at) => found.outside += 1,
            fate => {
                let sent_ns = seen.time_ns - start;
                let mut sample = Sample {
                    seq: found.samples.len() as u64,
                    intended_ns: sent_ns,
                    sent_ns,
                    ..Sample::default()
                };
                if let Fate::Matched(partner) = fate {
                    let received_ns = after[partner].time_ns - start;
                    sample.received_ns = Some(received_ns);
                    sample.latency_ns = Some(received_ns - sent_ns);
                    sample.arrival = arrivals.get(&partner).copied();
                }
                found.samples.push(sample);
            }
        }
    }
    let crossed: HashSet<u64> = pairs.iter().map(|pair| after[pair.1].ends).collect();
    let window = span(forward.iter().map(|pair| pair.1));
    for (at, seen) in after.iter().enumerate() {
        match behind[at] {
            Fate::Matched(_) => {}
            Fate::Alike => found.alike += 1,
            Fate::Copy => found.counters.duplicated += 1,
            Fate::Absent if against.contains(&seen.ends) => found.other_way += 1,
            Fate::Absent if !crossed.contains(&seen.ends) => found.elsewhere += 1,
            Fate::Absent if !window.contains(&at) => found.outside += 1,
            Fate::Absent => found.counters.unmatched += 1,
        }
    }
    let counters = &mut found.counters;
    counters.sent = found.samples.len() as u64;
    counters.received = forward.len() as u64;
    counters.lost = counters.sent - counters.received;
    found
}

/// The fates of both points' packets.
fn fates(before: &[Seen], after: &[Seen]) -> (Vec<Fate>, Vec<Fate>) {
    let mut places: HashMap<u64, [Vec<usize>; 2]> = HashMap::new();
    for (side, all) in [before, after].into_iter().enumerate() {
        for (at, seen) in all.iter().enumerate() {
            places.entry(seen.key).or_default()[side].push(at);
        }
    }
    let mut fates = vec![Fate::Absent; before.len()];
    let mut behind = vec![Fate::Absent; after.len()];
    for [here, there] in places.into_values() {
        if here.is_empty() || there.is_empty() {
            continue;
        }
        // As many of equal ones at both points: none was lost, and they keep their order.
        if here.len() == there.len() {
            for (at, partner) in here.into_iter().zip(there) {
                fates[at] = Fate::Matched(partner);
                behind[partner] = Fate::Matched(at);
            }
        } else if let [at] = here[..] {
            let is_later = |partner: &&usize| after[**partner].time_ns >= before[at].time_ns;
            let partner = there.iter().find(is_later).unwrap_or(&there[0]);
            for copy in &there {
                behind[*copy] = Fate::Copy;
            }
            fates[at] = Fate::Matched(*partner);
            behind[*partner] = Fate::Matched(at);
        } else {
            here.into_iter().for_each(|at| fates[at] = Fate::Alike);
            there.into_iter().for_each(|at| behind[at] = Fate::Alike);
        }
    }
    (fates, behind)
}

/// Directions in which most packets are at the second point first.
fn against(pairs: impl Iterator<Item = (u64, bool)>) -> HashSet<u64> {
    let mut counts: HashMap<u64, [u64; 2]> = HashMap::new();
    for (ends, is_negative) in pairs {
        counts.entry(ends).or_default()[usize::from(is_negative)] += 1;
    }
    let counts = counts.into_iter();
    let against = counts.filter(|(_, [forward, negative])| negative > forward);
    against.map(|(ends, _)| ends).collect()
}

/// The order of arrival of the packets of the second point. Counts those behind one that was sent later.
fn arrivals(pairs: &[(usize, usize)], counters: &mut Counters) -> HashMap<usize, i64> {
    let mut by_arrival = pairs.to_vec();
    by_arrival.sort_unstable_by_key(|pair| pair.1);
    let mut latest = 0;
    for (at, _) in &by_arrival {
        counters.reordered += u64::from(*at < latest);
        latest = latest.max(*at);
    }
    let numbers = by_arrival.into_iter().zip(0..);
    numbers
        .map(|((_, partner), number)| (partner, number))
        .collect()
}

/// From the first place to the last.
fn span(places: impl Iterator<Item = usize> + Clone) -> Range<usize> {
    let first = places.clone().min();
    first
        .zip(places.max())
        .map_or(0..0, |(first, last)| first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(key: u64, time_ns: i64) -> Seen {
        Seen {
            time_ns,
            key,
            ends: 1,
        }
    }

    fn latencies(found: &Matched) -> Vec<Option<i64>> {
        found.samples.iter().map(|s| s.latency_ns).collect()
    }

    #[test]
    fn lost_copied_and_overtaking_packets_are_counted() {
        let before = [seen(1, 100), seen(2, 200), seen(3, 300), seen(4, 400)];
        let after = [
            seen(1, 150),
            seen(4, 450),
            seen(3, 460),
            seen(3, 470),
            seen(9, 455),
        ];
        let mut after = after;
        after.sort_by_key(|one| one.time_ns);
        let found = matched(&before, &after);
        assert_eq!(latencies(&found), [Some(50), None, Some(160), Some(50)]);
        let c = found.counters;
        assert_eq!((c.sent, c.received, c.lost), (4, 3, 1));
        assert_eq!((c.duplicated, c.reordered, c.unmatched), (1, 1, 1));
        let order: Vec<_> = found.samples.iter().map(|s| s.arrival).collect();
        assert_eq!(order, [Some(0), None, Some(2), Some(1)]);
    }

    #[test]
    fn equal_packets_keep_their_order_unless_one_is_missing() {
        let before = [seen(1, 100), seen(1, 200), seen(2, 300), seen(3, 310)];
        let found = matched(&before, &[seen(1, 110), seen(1, 220), seen(3, 311)]);
        assert_eq!(latencies(&found), [Some(10), Some(20), None, Some(1)]);
        let found = matched(&before, &[seen(1, 220), seen(2, 301), seen(3, 311)]);
        assert_eq!(latencies(&found), [Some(1), Some(1)]);
        assert_eq!((found.alike, found.counters.lost), (3, 0));
    }

    #[test]
    fn packets_of_the_other_way_are_left_out() {
        let back = |key, time_ns| Seen {
            ends: 2,
            ..seen(key, time_ns)
        };
        let before = [
            seen(1, 100),
            back(5, 180),
            seen(2, 200),
            back(6, 280),
            back(7, 290),
        ];
        let after = [seen(1, 150), back(5, 155), back(6, 240), seen(2, 251)];
        let found = matched(&before, &after);
        assert_eq!(latencies(&found), [Some(50), Some(51)]);
        assert_eq!((found.other_way, found.counters.lost), (3, 0));
        assert_eq!(found.ends, HashSet::from([1]));
    }

    #[test]
    fn packets_that_were_never_to_cross_are_neither_lost_nor_unmatched() {
        let own = |key, time_ns| Seen {
            ends: 3,
            ..seen(key, time_ns)
        };
        let before = [seen(1, 100), own(20, 150), seen(2, 200), seen(3, 300)];
        let after = [seen(1, 110), own(30, 120), own(31, 130), seen(3, 310)];
        let found = matched(&before, &after);
        assert_eq!(latencies(&found), [Some(10), None, Some(10)]);
        let c = found.counters;
        assert_eq!((found.elsewhere, c.lost, c.unmatched), (3, 1, 0));
    }

    #[test]
    fn packets_from_before_both_captures_ran_are_not_lost() {
        let before = [seen(1, 100), seen(2, 200), seen(3, 300), seen(4, 400)];
        let found = matched(
            &before,
            &[seen(8, 10), seen(2, 210), seen(3, 310), seen(9, 900)],
        );
        assert_eq!(latencies(&found), [Some(10), Some(10)]);
        assert_eq!((found.outside, found.counters.unmatched), (4, 0));
        assert_eq!(matched(&before, &[]).samples, []);
    }
}
