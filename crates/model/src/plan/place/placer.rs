//! From what is asked for to what is given.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::asks::{Asks, Profiles, Want, nic_of};
use super::decided::{Decided, Owned};
use super::ground::Ground;
use super::solve::{Threads, Wish, solve, working};
use super::tuning::tuning;
use super::{nearest, why};
use crate::diagnostic::Diagnostics;
use crate::facts::Facts;
use crate::plan::blueprint::Blueprint;
use crate::plan::node::VM_MEMORY;
use crate::spec::Lab;
use crate::units::CpuList;

/// Places every node of a lab. With mistakes the blueprint is empty.
pub fn place(
    lab: &Lab,
    facts: &Facts,
    profiles: Profiles<'_>,
    errors: &mut Diagnostics,
) -> Blueprint {
    let before = errors.iter().count();
    let facts = &with_quiet(lab, facts, profiles);
    let asks = Asks::read(lab, facts, profiles, errors);
    let Some(ground) = Ground::new(&asks, facts, errors) else {
        return why::unplaced(&asks, facts);
    };
    if errors.iter().count() > before {
        return Blueprint::default();
    }
    match decide(lab, &asks, &ground, facts) {
        Some(decided) => why::blueprint(lab, &asks, &decided, facts),
        None => {
            nearest::refuse(&asks, &ground, facts, errors);
            Blueprint::default()
        }
    }
}

/// The machine with the CPUs that a person's tuning keeps quiet, for a lab whose own tuning puts its
/// nodes where these are.
fn with_quiet<'f>(lab: &Lab, facts: &'f Facts, profiles: Profiles<'_>) -> Cow<'f, Facts> {
    // Mistakes in it are told where it is planned.
    let tuning = tuning(lab, profiles, &mut Diagnostics::default());
    if facts.cpus_quiet.is_empty() || !tuning.is_some_and(|tuning| tuning.partition) {
        return Cow::Borrowed(facts);
    }
    let all = facts.cpus.iter().chain(facts.cpus_quiet.iter());
    Cow::Owned(Facts {
        cpus: CpuList::new(all.collect()),
        ..facts.clone()
    })
}

/// Tries the ways in which a lab can be placed, the best first.
fn decide<'g>(
    lab: &Lab,
    asks: &Asks<'_>,
    ground: &'g Ground,
    facts: &Facts,
) -> Option<Decided<'g>> {
    let wanted: Vec<usize> = (0..asks.all.len())
        .filter(|i| matches!(asks.all[*i].want, Want::Own(_)))
        .collect();
    let wishes = wishes(lab, asks, &wanted, ground, facts);
    let pooled = asks.pooled().next().is_some();
    let ways = [
        (true, Threads::Idle),
        (false, Threads::Idle),
        (false, Threads::Whole),
    ];
    for (keep_further, threads) in ways {
        // Without a pool the host has all that is left anyway.
        if keep_further && (!pooled || ground.further.is_empty()) {
            continue;
        }
        let kept: &[usize] = if keep_further { &ground.further } else { &[] };
        let free: BTreeSet<usize> = ground
            .free
            .iter()
            .copied()
            .filter(|c| !kept.contains(c))
            .collect();
        let Some(got) = solve(&ground.topology, &free, &wishes, threads) else {
            continue;
        };
        let used: BTreeSet<usize> = got.iter().flat_map(|g| g.cores.iter().copied()).collect();
        let mut left: BTreeSet<usize> = free.difference(&used).copied().collect();
        let named = ground.named.iter().copied().filter(|c| *c != ground.host);
        if pooled {
            left.extend(named);
            if left.is_empty() {
                continue;
            }
        }
        let mut own: Vec<Option<Owned>> = asks.all.iter().map(|_| None).collect();
        for ((index, got), wish) in wanted.iter().zip(got).zip(&wishes) {
            own[*index] = Some(Owned {
                cpus: working(&ground.topology, &got.cores, wish.cpus, threads),
                got,
                emulator: None,
            });
        }
        give_emulators(asks, ground, &mut own, &mut left, pooled);
        let pool = if pooled { left } else { BTreeSet::new() };
        let housekeeping = housekeeping(ground, &own, &pool);
        return Some(Decided {
            gave_further: pooled && !keep_further && !ground.further.is_empty(),
            threads,
            housekeeping,
            pool,
            own,
            ground,
        });
    }
    None
}

/// Gives a core of their own to the emulators of VMs with a profile that isolates, where their memory
/// node has one left and the pool keeps one; slow ones will do.
fn give_emulators(
    asks: &Asks<'_>,
    ground: &Ground,
    own: &mut [Option<Owned>],
    left: &mut BTreeSet<usize>,
    pooled: bool,
) {
    let cores = &ground.topology.cores;
    for (ask, owned) in asks.all.iter().zip(own) {
        let Some(owned) = owned.as_mut().filter(|_| ask.vcpus() > 0 && ask.isolates) else {
            continue;
        };
        if left.len() <= usize::from(pooled) {
            return;
        }
        let node = cores[owned.got.cores[0]].node;
        let near = left
            .iter()
            .copied()
            .filter(|c| cores[*c].node == node && !ground.named.contains(c));
        if let Some(core) = near.max_by_key(|c| (cores[*c].class, *c)) {
            left.remove(&core);
            owned.emulator = Some(core);
        }
    }
}

/// The cores given to no other.
fn housekeeping(ground: &Ground, own: &[Option<Owned>], pool: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut cores: BTreeSet<usize> = (0..ground.topology.cores.len()).collect();
    for owned in own.iter().flatten() {
        cores.retain(|c| !owned.got.cores.contains(c) && owned.emulator != Some(*c));
    }
    cores.retain(|c| {
        !pool.contains(c) && !ground.taken.contains(c) && !ground.claimed.contains_key(c)
    });
    cores
}

fn wishes(
    lab: &Lab,
    asks: &Asks<'_>,
    wanted: &[usize],
    ground: &Ground,
    facts: &Facts,
) -> Vec<Wish> {
    let wish_of = |name: &str| {
        let is_it = |i: &usize| asks.all[*i].name() == name;
        wanted.iter().position(is_it)
    };
    let mut wishes: Vec<Wish> = wanted
        .iter()
        .map(|i| {
            let fields = &asks.all[*i].node.fields;
            let own = match asks.all[*i].want {
                Want::Own(cpus) => cpus,
                _ => 0,
            };
            let vm = (asks.all[*i].vcpus() > 0).then_some(VM_MEMORY);
            let memory = fields.memory.map(|m| m.value).or(vm);
            Wish {
                cpus: own,
                memory: memory.map_or(0, |m| m.0),
                nic: nic_of(lab, asks.all[*i].name(), facts)
                    .and_then(|(_, id)| ground.topology.node(id)),
                peers: Vec::new(),
            }
        })
        .collect();
    for link in &lab.links {
        let mut ends: Vec<usize> = link
            .endpoints
            .iter()
            .filter_map(|e| wish_of(&e.node))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        // On a medium with very many ends no two are neighbours in particular.
        if ends.len() > 64 {
            continue;
        }
        for a in &ends {
            wishes[*a].peers.extend(ends.iter().filter(|b| *b != a));
        }
    }
    wishes
}
