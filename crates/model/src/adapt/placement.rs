//! Advice on placement: which nodes belong together on a host.
//!
//! The search starts from the present placement and from the paper's greedy one, heaviest pairs first (Cui 2013,
//! 2.3.3), and improves both by single moves and swaps as long as one of them relieves the busiest wire.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::traffic::Rate;

/// The advice is none above this share of the present load of the busiest wire.
const WORTHWHILE: f64 = 0.80;

/// Most steps of the search; each makes the busiest wire or the sum smaller.
const MAX_STEPS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Nodes that it can have: those that it has, if nothing else is known.
    pub room: usize,
}

/// A node that should move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shift {
    pub node: String,
    pub from: String,
    pub to: String,
}

/// An advised placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placement {
    pub shifts: Vec<Shift>,
    /// Bytes a second between hosts, now and then.
    pub between_hosts: [f64; 2],
    /// Bytes a second in the busier direction of the busiest host's wire, now and then. Where that wire limits an
    /// application, their ratio is its gain.
    pub busiest_wire: [f64; 2],
}

/// Bytes a second: of the busiest wire, then of all.
type Load = [f64; 2];

struct Search<'a> {
    hosts: &'a [Host],
    /// By node: node and rate of each other one that it sends to.
    sends: Vec<Vec<(usize, f64)>>,
}

impl Placement {
    /// The placement that relieves the busiest wire most, if by a fifth at least. `places`: the host of each node, by its
    /// number. Every host keeps its number of nodes or has room for more.
    #[must_use]
    pub fn advise(
        hosts: &[Host],
        places: &BTreeMap<String, usize>,
        rates: &[Rate],
    ) -> Option<Placement> {
        let names: Vec<&String> = places.keys().collect();
        let numbers: BTreeMap<&str, usize> =
            names.iter().map(|name| name.as_str()).zip(0..).collect();
        let mut sends = vec![Vec::new(); names.len()];
        for rate in rates {
            let ends = [&rate.from, &rate.to].map(|name| numbers.get(name.as_str()));
            if let [Some(from), Some(to)] = ends {
                sends[*from].push((*to, rate.bytes_per_second));
            }
        }
        let search = Search { hosts, sends };
        let present: Vec<usize> = places.values().copied().collect();
        let before = search.load(&present);
        let mut best = search.improved(present.clone());
        if let Some(greedy) = search.greedy().map(|places| search.improved(places)) {
            if search.load(&greedy)[0] < WORTHWHILE * search.load(&best)[0] {
                best = greedy;
            }
        }
        let after = search.load(&best);
        if after[0] > WORTHWHILE * before[0] || before[0] <= 0.0 {
            return None;
        }
        let moved = (0..names.len()).filter(|node| present[*node] != best[*node]);
        let shifts = moved.map(|node| Shift {
            node: names[node].clone(),
            from: hosts[present[node]].name.clone(),
            to: hosts[best[node]].name.clone(),
        });
        Some(Placement {
            shifts: shifts.collect(),
            between_hosts: [before[1], after[1]],
            busiest_wire: [before[0], after[0]],
        })
    }

    /// In words, with its numbers.
    #[must_use]
    pub fn text(&self) -> String {
        let shift = |shift: &Shift| format!("{} to {}", shift.node, shift.to);
        let shifts: Vec<String> = self.shifts.iter().map(shift).collect();
        let [now, then] = self.busiest_wire.map(|bytes| bytes * 8.0 / 1e6);
        format!(
            "with {}, the busiest wire of a host would carry {then:.1} Mbit/s instead of {now:.1}, if \
             the rates stay and each host keeps its number of nodes",
            shifts.join(", ")
        )
    }
}

impl Search<'_> {
    fn load(&self, places: &[usize]) -> Load {
        // Sent and received, by host.
        let mut wires = vec![[0.0_f64; 2]; self.hosts.len()];
        let mut all = 0.0;
        for (from, sends) in self.sends.iter().enumerate() {
            for (to, rate) in sends {
                let [a, b] = [places[from], places[*to]];
                if a != b {
                    wires[a][0] += rate;
                    wires[b][1] += rate;
                    all += rate;
                }
            }
        }
        let busiest = wires.iter().flatten().copied().fold(0.0, f64::max);
        [busiest, all]
    }

    fn is_better(new: Load, old: Load) -> bool {
        // Rounding is no gain.
        let less = |a: f64, b: f64| a < b * (1.0 - 1e-9);
        less(new[0], old[0]) || (!less(old[0], new[0]) && less(new[1], old[1]))
    }

    /// Nodes in the order of their heaviest pairs, each on the host with room to which it is drawn most.
    fn greedy(&self) -> Option<Vec<usize>> {
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for (from, sends) in self.sends.iter().enumerate() {
            pairs.extend(sends.iter().map(|(to, rate)| (*rate, from, *to)));
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut room: Vec<usize> = self.hosts.iter().map(|host| host.room).collect();
        let mut places: Vec<Option<usize>> = vec![None; self.sends.len()];
        let in_pairs = pairs.iter().flat_map(|(_, from, to)| [*from, *to]);
        for node in in_pairs.chain(0..self.sends.len()) {
            if places[node].is_none() {
                let host = self.drawn_to(node, &places, &room)?;
                room[host] -= 1;
                places[node] = Some(host);
            }
        }
        places.into_iter().collect()
    }

    fn drawn_to(&self, node: usize, places: &[Option<usize>], room: &[usize]) -> Option<usize> {
        let mut draws = vec![0.0; self.hosts.len()];
        for (from, sends) in self.sends.iter().enumerate() {
            for (to, rate) in sends.iter().filter(|(to, _)| from == node || *to == node) {
                let other = if from == node { *to } else { from };
                if let Some(host) = places[other] {
                    draws[host] += rate;
                }
            }
        }
        let with_room = (0..room.len()).filter(|host| room[*host] > 0);
        // The emptiest of equals, for the node's other partners.
        with_room.max_by(|a, b| {
            draws[*a]
                .total_cmp(&draws[*b])
                .then(room[*a].cmp(&room[*b]))
        })
    }

    fn improved(&self, mut places: Vec<usize>) -> Vec<usize> {
        let mut load = self.load(&places);
        for _ in 0..MAX_STEPS {
            let Some((better, new)) = self.best_step(&places, load) else {
                break;
            };
            (places, load) = (better, new);
        }
        places
    }

    /// The best move or swap of those that are better than `load`.
    fn best_step(&self, places: &[usize], load: Load) -> Option<(Vec<usize>, Load)> {
        let mut best: Option<(Vec<usize>, Load)> = None;
        let mut consider = |candidate: Vec<usize>| {
            let new = self.load(&candidate);
            let least = best.as_ref().map_or(load, |(_, least)| *least);
            if Self::is_better(new, least) {
                best = Some((candidate, new));
            }
        };
        for node in 0..places.len() {
            for host in (0..self.hosts.len()).filter(|host| *host != places[node]) {
                let there = places.iter().filter(|place| **place == host).count();
                if there < self.hosts[host].room {
                    let mut moved = places.to_vec();
                    moved[node] = host;
                    consider(moved);
                }
            }
            for other in node + 1..places.len() {
                if places[node] != places[other] {
                    let mut swapped = places.to_vec();
                    swapped.swap(node, other);
                    consider(swapped);
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(from: usize, to: usize, bytes: f64) -> Rate {
        Rate {
            from: format!("n{from}"),
            to: format!("n{to}"),
            bytes_per_second: bytes,
        }
    }

    fn both(a: usize, b: usize) -> [Rate; 2] {
        [rate(a, b, 1e6), rate(b, a, 1e6)]
    }

    fn hosts(count: usize, room: usize) -> Vec<Host> {
        let host = |number| Host {
            name: format!("h{number}"),
            room,
        };
        (0..count).map(host).collect()
    }

    fn placed(places: &[usize]) -> BTreeMap<String, usize> {
        let names = (0..places.len()).map(|node| format!("n{node}"));
        names.zip(places.iter().copied()).collect()
    }

    /// The least load of the busiest wire of all placements.
    fn exhaustive(hosts: &[Host], nodes: usize, rates: &[Rate]) -> f64 {
        let mut sends = vec![Vec::new(); nodes];
        for rate in rates {
            let number = |name: &str| name[1..].parse::<usize>().unwrap();
            sends[number(&rate.from)].push((number(&rate.to), rate.bytes_per_second));
        }
        let search = Search { hosts, sends };
        let all = hosts.len().pow(u32::try_from(nodes).unwrap());
        let placement = |mut code: usize| -> Vec<usize> {
            let mut digit = || {
                let host = code % hosts.len();
                code /= hosts.len();
                host
            };
            (0..nodes).map(|_| digit()).collect()
        };
        let fits = |places: &Vec<usize>| {
            (0..hosts.len())
                .all(|host| places.iter().filter(|p| **p == host).count() <= hosts[host].room)
        };
        let loads = (0..all)
            .map(placement)
            .filter(fits)
            .map(|places| search.load(&places)[0]);
        loads.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn a_ring_that_is_spread_in_turns_is_cut_in_two() {
        let ring: Vec<Rate> = (0..4).flat_map(|node| both(node, (node + 1) % 4)).collect();
        let advice = Placement::advise(&hosts(2, 2), &placed(&[0, 1, 0, 1]), &ring).unwrap();
        assert_eq!(advice.shifts.len(), 2);
        assert_eq!(advice.busiest_wire, [4e6, 2e6]);
        assert_eq!(advice.between_hosts, [8e6, 4e6]);
    }

    #[test]
    fn where_nothing_is_to_gain_nothing_is_advised() {
        let all: Vec<Rate> = (0..4)
            .flat_map(|a| (a + 1..4).flat_map(move |b| both(a, b)))
            .collect();
        assert_eq!(
            Placement::advise(&hosts(2, 2), &placed(&[0, 1, 0, 1]), &all),
            None
        );
        assert_eq!(
            Placement::advise(&hosts(2, 2), &placed(&[0, 1, 0, 1]), &[]),
            None
        );
        // Without room for another node, a pair on two hosts stays.
        assert_eq!(
            Placement::advise(&hosts(2, 1), &placed(&[0, 1]), &both(0, 1)),
            None
        );
        let advice = Placement::advise(&hosts(2, 2), &placed(&[0, 1]), &both(0, 1)).unwrap();
        assert_eq!(advice.busiest_wire[1], 0.0);
    }

    #[test]
    fn advice_is_near_the_best_of_all_placements() {
        let mut random = 7_u64;
        let mut next = move |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..60 {
            let nodes = 6;
            let hosts = hosts(3, 2);
            let rates: Vec<Rate> = (0..9)
                .map(|_| {
                    let [from, to] = [next(6), next(6)].map(|n| usize::try_from(n).unwrap());
                    rate(from, to, (1 + next(100)) as f64 * 1e4)
                })
                .filter(|rate| rate.from != rate.to)
                .collect();
            let present = [0, 1, 2, 0, 1, 2];
            let best = exhaustive(&hosts, nodes, &rates);
            let advice = Placement::advise(&hosts, &placed(&present), &rates);
            let found = advice.as_ref().map(|advice| advice.busiest_wire[1]);
            if let Some(found) = found {
                assert!(
                    found <= best * 1.5 + 1.0,
                    "{found} beside {best}: {rates:?}"
                );
            }
        }
    }
}
