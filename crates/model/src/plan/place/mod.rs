//! Which processors and which memory everything of a lab uses: from a lab and a machine's facts to a
//! [`Blueprint`], with a reason for every choice (HVNet's, Daichendt 2022, 4.2).
//!
//! The rules, in the order in which they win:
//!
//! 1. The host keeps at least one core, that of the lowest processor: it boots the machine and serves
//!    its timers, and much that cannot be moved stays there.
//! 2. No core is given twice, over all labs that are up. A core has one user: its other threads idle,
//!    or belong to the same user; they are never split.
//! 3. A node's cores are on one memory node with its memory and its network interface, if any choice
//!    for all nodes together allows it ([`solve`]); of one kind, fast ones first; below one cache.
//! 4. A VM's virtual processors have a core each, its other threads run elsewhere.
//! 5. With a profile that isolates, whoever asks for no core of its own shares the lab's pool: all
//!    that is left. Where there are cores enough, the host keeps one on each memory node.
//!
//! | file | its part |
//! |---|---|
//! | `asks` | what each node wants |
//! | `topology` | the machine's cores |
//! | `ground` | which of them can be given, and what the lab names |
//! | `tuning` | the profile that the machine's knobs are turned by |
//! | `solve` | who gets which |
//! | `nearest` | when they do not suffice: the nearest that would |
//! | `why` | the blueprint with its sentences |

mod asks;
mod ground;
mod nearest;
mod onto;
mod solve;
mod topology;
mod tuning;
mod why;

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::blueprint::Blueprint;
use crate::diagnostic::Diagnostics;
use crate::facts::Facts;
use crate::spec::{Lab, LinkKind};
use crate::units::CpuList;
pub use asks::Profiles;
use asks::{Asks, Want};
use ground::Ground;
pub(super) use onto::{VM_MEMORY, node_plans};
use solve::{Got, Threads, Wish, solve, working};
pub(super) use tuning::tuning;

/// Everything that was decided, for the sentences.
struct Decided<'g> {
    ground: &'g Ground,
    /// What becomes of the threads of cores.
    threads: Threads,
    /// Cores of the host, when some are isolated; all that is left otherwise.
    housekeeping: BTreeSet<usize>,
    /// Cores on further memory nodes were given to nodes although the host had better keep them.
    gave_further: bool,
    /// Cores of the pool.
    pool: BTreeSet<usize>,
    /// By node: what it wanted and got, if it wanted cores of its own.
    own: Vec<Option<Owned>>,
}

/// A node with cores of its own.
struct Owned {
    got: Got,
    /// Its working processors.
    cpus: Vec<u32>,
    /// A core for a VM's other threads.
    emulator: Option<usize>,
}

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

/// The machine with the processors that a person's tuning keeps quiet, for a lab whose own tuning puts its
/// nodes where these are.
fn with_quiet<'f>(lab: &Lab, facts: &'f Facts, profiles: Profiles<'_>) -> Cow<'f, Facts> {
    // What is wrong with it is told where it is planned.
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

/// What nobody else was given.
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
        // On a medium with very many ends nobody is anybody's neighbour in particular.
        if ends.len() > 64 {
            continue;
        }
        for a in &ends {
            wishes[*a].peers.extend(ends.iter().filter(|b| *b != a));
        }
    }
    wishes
}

/// The host's interface below a node's macvlan, with its memory node; the first that has one.
fn nic_of<'l>(lab: &'l Lab, node: &str, facts: &Facts) -> Option<(&'l str, u32)> {
    let macvlans = lab
        .links
        .iter()
        .filter(|l| l.kind.value == LinkKind::Macvlan);
    let joining = macvlans.filter(|l| l.endpoints.iter().any(|e| e.node.value == node));
    let mut parents = joining.filter_map(|l| l.parent.as_ref());
    parents.find_map(|parent| {
        let nic = facts.machine.nics.iter().find(|n| n.name == parent.value)?;
        Some((parent.as_str(), nic.numa_node?))
    })
}
