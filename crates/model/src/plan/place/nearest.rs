//! When a wish cannot be met: which one, and the nearest that can.

use std::collections::BTreeSet;

use super::asks::{Ask, Asks, Want};
use super::ground::Ground;
use super::solve::{Threads, Wish, solve, working};
use crate::diagnostic::{Diagnostics, Mark};
use crate::facts::Facts;
use crate::units::CpuList;

const MAX_NAMED: usize = 64;

/// Notes why the lab does not fit, at the first node that is too much.
pub fn refuse(asks: &Asks<'_>, ground: &Ground, facts: &Facts, errors: &mut Diagnostics) {
    let wanted: Vec<(usize, usize)> = asks
        .all
        .iter()
        .enumerate()
        .filter_map(|(i, a)| match a.want {
            Want::Own(cpus) => Some((i, cpus)),
            _ => None,
        })
        .collect();
    let pool = asks.pooled().next();
    let hint = nearest(asks, ground, &wanted);
    let counts = |upto: usize, last: usize| -> Vec<usize> {
        let all = wanted[..upto].iter().map(|(_, n)| *n);
        all.chain([last]).collect()
    };
    let fits = |counts: &[usize]| placed(asks, ground, counts).is_some();
    // The first node with which it is too much, if it is a node's wish and not the pool's alone.
    let first = (0..wanted.len()).collect::<Vec<_>>();
    let first = first.partition_point(|k| fits(&counts(*k, wanted[*k].1)));
    if let Some((index, cpus)) = wanted.get(first).filter(|_| fits(&[])) {
        let some = (1..*cpus).collect::<Vec<_>>();
        let left = some.partition_point(|n| fits(&counts(first, *n)));
        let node = asks.all[*index].node;
        let at = node.fields.isolate.map_or(node.name.at, |i| i.at);
        let message = format!(
            "node `{}` wants {cpus} exclusive CPU(s); {left} of this machine's {} can still be given",
            *node.name,
            facts.cpus.len(),
        );
        errors.add(at, message, hint);
        return;
    }
    let Some(ask) = pool else {
        // Each alone would do, but not all as they wish: kinds of cores, or threads, do not add up.
        let node = wanted.first().map(|(index, _)| asks.all[*index].node);
        let at = node.map_or_else(Mark::default, |n| n.name.at);
        errors.add(
            at,
            "the lab's exclusive CPUs do not fit this machine together",
            hint,
        );
        return;
    };
    let name = ask.tuning.map_or("", |t| t.as_str());
    let message = format!(
        "node `{}` with tuning `{name}` needs a core beside the host's, and none is left",
        ask.name()
    );
    let hint = if wanted.is_empty() {
        format!(
            "the nearest that fits: `tuning: default`, on {}",
            shown(&ground.topology.cores[ground.host].threads)
        )
    } else {
        hint
    };
    errors.add(ask.tuning.map_or(ask.node.name.at, |t| t.at), message, hint);
}

/// The nearest lab that fits, in words: every share is capped alike, and what remains then goes
/// to the first nodes that want more.
fn nearest(asks: &Asks<'_>, ground: &Ground, wanted: &[(usize, usize)]) -> String {
    let host = shown(&ground.topology.cores[ground.host].threads);
    if wanted.len() > MAX_NAMED {
        return format!(
            "lower `cpus`, or drop `isolate` of some nodes; {host} stays with the host"
        );
    }
    let fits = |counts: &[usize]| placed(asks, ground, counts).is_some();
    let capped = |cap: usize| -> Vec<usize> { wanted.iter().map(|(_, n)| (*n).min(cap)).collect() };
    let (mut low, mut high) = (
        0,
        ground.topology.threads(ground.free.iter().copied()).len() + 1,
    );
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if fits(&capped(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut counts = capped(low);
    for i in 0..counts.len() {
        counts[i] += 1;
        if counts[i] > wanted[i].1 || !fits(&counts) {
            counts[i] -= 1;
            if low == 0 {
                // The machine is full; no node further down finds room either.
                break;
            }
        }
    }
    let Some(places) = placed(asks, ground, &counts) else {
        return format!("drop `isolate`; {host} stays with the host");
    };
    let mut words = Vec::new();
    let mut places = places.iter();
    for ((index, want), count) in wanted.iter().zip(&counts) {
        let Ask { node, .. } = &asks.all[*index];
        let place = match count {
            0 => None,
            _ => places.next(),
        };
        words.push(match place {
            None => format!("`{}` without `isolate`", *node.name),
            Some(cpus) if count == want => format!("`{}` on {}", *node.name, shown(cpus)),
            Some(cpus) => format!("`{}` with `cpus: {count}` on {}", *node.name, shown(cpus)),
        });
        if words.len() == 4 && wanted.len() > 4 {
            words.push(format!("and {} more", wanted.len() - 4));
            break;
        }
    }
    format!(
        "the nearest that fits: {}; {host} stays with the host",
        words.join(", ")
    )
}

/// The CPUs of the nodes with these counts, of those that have any.
fn placed(asks: &Asks<'_>, ground: &Ground, counts: &[usize]) -> Option<Vec<Vec<u32>>> {
    let wishes: Vec<Wish> = counts
        .iter()
        .filter(|n| **n > 0)
        .map(|n| Wish {
            cpus: *n,
            memory: 0,
            nic: None,
            peers: Vec::new(),
        })
        .collect();
    for threads in [Threads::Idle, Threads::Whole] {
        let Some(got) = solve(&ground.topology, &ground.free, &wishes, threads) else {
            continue;
        };
        let used: BTreeSet<usize> = got.iter().flat_map(|g| g.cores.iter().copied()).collect();
        let pool_has = used.len() < ground.free.len() || !ground.named.is_empty();
        if asks.pooled().next().is_some() && !pool_has {
            continue;
        }
        let cpus = got.iter().zip(&wishes);
        return Some(
            cpus.map(|(g, w)| working(&ground.topology, &g.cores, w.cpus, threads))
                .collect(),
        );
    }
    None
}

fn shown(cpus: &[u32]) -> String {
    format!("CPU {}", CpuList::new(cpus.to_vec()))
}
