//! The blueprint, a sentence for every choice.

use std::collections::BTreeSet;

use super::asks::{Ask, Asks, Want, nic_of};
use super::decided::{Decided, Owned};
use super::solve::Threads;
use super::topology::Topology;
use crate::facts::Facts;
use crate::plan::blueprint::{Blueprint, Given, MemoryPlace, NicPlace, NodePlace, Share};
use crate::plan::node::VM_MEMORY;
use crate::spec::Lab;
use crate::units::{Bytes, CpuList};

/// The blueprint of a lab on a machine of which no CPU is known: no node wanted one.
pub fn unplaced(asks: &Asks<'_>, facts: &Facts) -> Blueprint {
    let all = || Given {
        cpus: facts.cpus.clone(),
        why: "nothing is kept free of them".into(),
    };
    Blueprint {
        housekeeping: all(),
        interrupts: all(),
        kernel_threads: all(),
        nodes: asks
            .all
            .iter()
            .map(|a| shared(a, Share::Host, all()))
            .collect(),
        ..Blueprint::default()
    }
}

pub fn blueprint(lab: &Lab, asks: &Asks<'_>, d: &Decided<'_>, facts: &Facts) -> Blueprint {
    let topology = &d.ground.topology;
    let housekeeping = Given::new(
        topology.threads(d.housekeeping.iter().copied()),
        host_why(asks, d),
    );
    let pool = (!d.pool.is_empty()).then(|| {
        let names: Vec<&str> = asks.pooled().map(Ask::name).collect();
        let tuning = asks.pooled().find_map(|a| a.tuning);
        let why = format!(
            "tuning `{}` keeps everything else off the cores that are shared by {}",
            tuning.map_or("", |t| t.as_str()),
            listed(&names)
        );
        Given::new(topology.threads(d.pool.iter().copied()), why)
    });
    let idle = idle(asks, d);
    let anything_given =
        pool.is_some() || d.own.iter().any(Option::is_some) || !d.ground.claimed.is_empty();
    let moved = |what: &str| {
        if anything_given {
            format!("{what} on a node's core would add to what the node measures")
        } else {
            "nothing is kept free of them".into()
        }
    };
    let mut memory = Memory::new(topology);
    let nodes = asks.all.iter().enumerate().map(|(index, ask)| {
        let whose = Whose {
            lab,
            facts,
            housekeeping: &housekeeping,
            pool: pool.as_ref(),
        };
        node(index, ask, d, &whose, &mut memory)
    });
    let nodes = nodes.collect();
    Blueprint {
        interrupts: housekeeping.because(moved("an interrupt")),
        kernel_threads: housekeeping.because(moved("a kernel thread")),
        nics: if anything_given {
            nics(d, facts)
        } else {
            Vec::new()
        },
        housekeeping,
        pool,
        idle,
        nodes,
    }
}

fn listed(names: &[&str]) -> String {
    let quoted = |n: &&str| format!("`{n}`");
    match names {
        [] => "nobody".into(),
        [one] => quoted(one),
        [first @ .., last] if first.len() < 3 => {
            let first: Vec<String> = first.iter().map(quoted).collect();
            format!("{} and {}", first.join(", "), quoted(last))
        }
        [first, second, rest @ ..] => {
            format!(
                "{}, {} and {} more nodes",
                quoted(first),
                quoted(second),
                rest.len()
            )
        }
    }
}

fn host_why(asks: &Asks<'_>, d: &Decided<'_>) -> String {
    let given = d.own.iter().any(Option::is_some) || !d.ground.claimed.is_empty();
    if d.pool.is_empty() {
        return match (given, d.ground.taken.is_empty()) {
            (false, true) => {
                "no node asks for cores of its own, so the host shares all of them".into()
            }
            (false, false) => {
                "what other labs have not; the host shares it with this lab's nodes".into()
            }
            (true, _) => "what no node has for its own; the host shares it with the others".into(),
        };
    }
    let topology = &d.ground.topology;
    let first = topology.cores[d.ground.host].threads[0];
    let mut why = format!(
        "CPU {first} boots the machine and serves what cannot be moved, so its core stays with the host"
    );
    let further: Vec<usize> = d
        .ground
        .further
        .iter()
        .copied()
        .filter(|c| d.housekeeping.contains(c))
        .collect();
    if !further.is_empty() {
        let nodes: Vec<u32> = further
            .iter()
            .map(|c| topology.nodes[topology.cores[*c].node].id)
            .collect();
        why += &format!(
            "; so does a core on memory node {}, for the kernel's work there",
            CpuList::new(nodes)
        );
    } else if d.gave_further {
        why += "; the lab needs the cores that it had better keep on further memory nodes";
    }
    let rest = d
        .housekeeping
        .iter()
        .filter(|c| **c != d.ground.host && !d.ground.further.contains(c));
    if rest.count() > 0 {
        why += if asks.listed.is_some() {
            "; the profile's `cores` leave it the rest"
        } else {
            "; cores of which others have a thread cannot be given"
        };
    }
    why
}

/// Threads that idle because another of their core was given.
fn idle(asks: &Asks<'_>, d: &Decided<'_>) -> Option<Given> {
    let topology = &d.ground.topology;
    let own = d.own.iter().flatten();
    let working: BTreeSet<u32> = own.clone().flat_map(|o| o.cpus.iter().copied()).collect();
    let mut idle = topology.threads(own.flat_map(|o| o.got.cores.iter().copied()));
    idle.retain(|c| !working.contains(c));
    for (core, owner) in &d.ground.claimed {
        if let Want::Named(set, _) = asks.all[*owner].want {
            let others = topology.cores[*core].threads.iter().copied();
            idle.extend(others.filter(|c| !set.contains(*c)));
        }
    }
    let why = "the threads of a core share its units and nearest caches, so one works and the others idle";
    (!idle.is_empty()).then(|| Given::new(idle, why))
}

fn nics(d: &Decided<'_>, facts: &Facts) -> Vec<NicPlace> {
    let topology = &d.ground.topology;
    let place = |nic: &crate::facts::Nic| {
        let id = nic.numa_node.filter(|_| topology.is_numa())?;
        let node = topology.node(id)?;
        let near = nearest(d, node);
        let here = near.iter().any(|c| topology.cores[*c].node == node);
        let why = if here {
            format!("`{}` is on memory node {id}, and so are these", nic.name)
        } else {
            format!(
                "`{}` is on memory node {id}, where the host has no core; these are nearest",
                nic.name
            )
        };
        Some(NicPlace {
            name: nic.name.clone(),
            interrupts: Given::new(topology.threads(near), why),
        })
    };
    facts.machine.nics.iter().filter_map(place).collect()
}

/// The host's cores that are nearest to a memory node.
fn nearest(d: &Decided<'_>, node: usize) -> Vec<usize> {
    let topology = &d.ground.topology;
    let distance = |core: &usize| topology.distance(node, topology.cores[*core].node);
    let least = d.housekeeping.iter().map(distance).min();
    let cores = d.housekeeping.iter().copied();
    cores.filter(|c| Some(distance(c)) == least).collect()
}

struct Whose<'a> {
    lab: &'a Lab,
    facts: &'a Facts,
    housekeeping: &'a Given,
    pool: Option<&'a Given>,
}

fn shared(ask: &Ask<'_>, share: Share, cores: Given) -> NodePlace {
    NodePlace {
        name: ask.name().into(),
        share,
        cores,
        vcpus: Vec::new(),
        emulator: None,
        memory: None,
    }
}

fn node(
    index: usize,
    ask: &Ask<'_>,
    d: &Decided<'_>,
    whose: &Whose<'_>,
    memory: &mut Memory<'_>,
) -> NodePlace {
    let host = |why: &str| whose.housekeeping.because(why);
    match (ask.want, &d.own[index], whose.pool) {
        (Want::Own(_), Some(owned), _) => own(ask, owned, d, whose, memory),
        (Want::Named(set, alone), ..) => {
            let cpus: Vec<u32> = set.iter().collect();
            let why = if alone {
                "the lab names them, for this node alone"
            } else {
                "the lab names them; others may be there too"
            };
            let share = if alone { Share::Own } else { Share::Named };
            let mut place = shared(ask, share, Given::new(cpus.clone(), why));
            let vcpus = ask.vcpus();
            if alone && vcpus > 0 && vcpus <= cpus.len() {
                let (own, rest) = cpus.split_at(vcpus);
                place.vcpus = own.to_vec();
                place.emulator = Some(if rest.is_empty() {
                    Given::new(
                        cpus.clone(),
                        "the lab names no more CPUs than it has virtual ones",
                    )
                } else {
                    Given::new(
                        rest.to_vec(),
                        "the named CPUs that are more than its virtual ones",
                    )
                });
            }
            if alone {
                let topology = &d.ground.topology;
                let cores: Vec<usize> = cpus.iter().filter_map(|c| topology.core(*c)).collect();
                place.memory = memory.of(ask, &cores, None);
            }
            place
        }
        (Want::Pool, _, Some(pool)) => {
            let why = format!(
                "it asks for no cores of its own under tuning `{}`",
                tuning(ask)
            );
            let mut place = shared(ask, Share::Pool, pool.because(why));
            if ask.vcpus() > 0 {
                let why = "device emulation and I/O would compete with virtual CPUs in the pool";
                place.emulator = Some(host(why));
            }
            place
        }
        _ => shared(ask, Share::Host, host("it asks for nothing")),
    }
}

fn tuning<'a>(ask: &'a Ask<'_>) -> &'a str {
    ask.tuning.map_or("", |t| t.as_str())
}

fn own(
    ask: &Ask<'_>,
    owned: &Owned,
    d: &Decided<'_>,
    whose: &Whose<'_>,
    memory: &mut Memory<'_>,
) -> NodePlace {
    let topology = &d.ground.topology;
    let vcpus = ask.vcpus();
    let emulator = (vcpus > 0).then(|| emulator(ask, owned, d));
    let nic =
        nic_of(whose.lab, ask.name(), whose.facts).filter(|(_, id)| topology.node(*id).is_some());
    NodePlace {
        name: ask.name().into(),
        share: Share::Own,
        cores: Given::new(owned.cpus.clone(), own_why(owned, vcpus, d, nic)),
        vcpus: match vcpus {
            0 => Vec::new(),
            _ => owned.cpus.clone(),
        },
        emulator,
        memory: memory.of(ask, &owned.got.cores, nic),
    }
}

fn own_why(owned: &Owned, vcpus: usize, d: &Decided<'_>, nic: Option<(&str, u32)>) -> String {
    let topology = &d.ground.topology;
    let cores = &owned.got.cores;
    let mut why = match (vcpus, cores.len()) {
        (0, 1) => "a core of its own".to_string(),
        (0, n) => format!("{n} cores of its own"),
        (1, _) => "a core for its virtual CPU".into(),
        (n, cores) if cores == n => format!("a core for each of its {n} virtual CPUs"),
        (n, cores) => format!("{cores} cores for its {n} virtual CPUs"),
    };
    if cores.iter().any(|c| topology.cores[*c].threads.len() > 1) {
        why += match d.threads {
            Threads::Idle => ", of each one thread, the others idle",
            Threads::Whole => {
                ", all threads of it, because the lab wants more than there are cores"
            }
        };
    }
    let classes: BTreeSet<usize> = cores.iter().map(|c| topology.cores[*c].class).collect();
    if let Some(first) = classes.first().filter(|_| topology.classes.len() > 1) {
        why += &match classes.len() {
            1 if *first == 0 => format!("; of the fast kind (`{}`)", topology.classes[0]),
            1 => format!(
                "; all `{}`, because not as many faster ones are left",
                topology.classes[*first]
            ),
            _ => "; of several kinds, because no kind has as many left".into(),
        };
    }
    if topology.is_numa() {
        let nodes = CpuList::new(
            cores
                .iter()
                .map(|c| topology.nodes[topology.cores[*c].node].id)
                .collect(),
        );
        why += &match (owned.got.local, nic) {
            (true, Some((name, id))) if nodes.contains(id) => {
                format!("; on memory node {nodes}, where `{name}` is")
            }
            (true, Some((name, id))) => {
                format!(
                    "; on memory node {nodes}, because node {id}, where `{name}` is, has not as many left"
                )
            }
            (true, None) => format!("; all on memory node {nodes}"),
            (false, _) => format!("; on memory nodes {nodes}, because no node has as many left"),
        };
    }
    let caches: BTreeSet<u32> = cores.iter().map(|c| topology.cores[*c].cache).collect();
    if cores.len() > 1 && caches.len() == 1 && caches.first() < Some(&(u32::MAX / 2)) {
        why += "; below one cache";
    }
    why
}

fn emulator(ask: &Ask<'_>, owned: &Owned, d: &Decided<'_>) -> Given {
    let topology = &d.ground.topology;
    if let Some(core) = owned.emulator {
        let why = format!(
            "device emulation and I/O apart from the virtual CPUs; under tuning `{}` on a core of \
             its own, since one is left near them",
            tuning(ask)
        );
        return Given::new(topology.cores[core].threads.clone(), why);
    }
    let near = nearest(d, topology.cores[owned.got.cores[0]].node);
    let why = if ask.isolates {
        "device emulation and I/O apart from the virtual CPUs; among the host's, since no core is left near them"
    } else {
        "device emulation and I/O apart from the virtual CPUs, among the host's"
    };
    Given::new(topology.threads(near), why)
}

/// The rest of each memory node, node by node of the lab.
struct Memory<'t> {
    topology: &'t Topology,
    left: Vec<u64>,
}

impl<'t> Memory<'t> {
    fn new(topology: &'t Topology) -> Memory<'t> {
        Memory {
            topology,
            left: topology.nodes.iter().map(|n| n.bytes).collect(),
        }
    }

    /// The memory nodes of a user on these cores: their own, as long as there is enough.
    fn of(
        &mut self,
        ask: &Ask<'_>,
        cores: &[usize],
        nic: Option<(&str, u32)>,
    ) -> Option<MemoryPlace> {
        let t = self.topology;
        if !t.is_numa() || cores.is_empty() {
            return None;
        }
        let vm = (ask.vcpus() > 0).then_some(VM_MEMORY);
        let wanted = ask
            .node
            .fields
            .memory
            .map(|m| m.value)
            .or(vm)
            .unwrap_or(Bytes(0));
        let homes: BTreeSet<usize> = cores.iter().map(|c| t.cores[*c].node).collect();
        let first = t.cores[cores[0]].node;
        let told = t.nodes.iter().any(|n| n.bytes > 0);
        let mut nodes: Vec<usize> = (0..t.nodes.len())
            .filter(|n| !told || t.nodes[*n].bytes > 0)
            .collect();
        nodes.sort_by_key(|n| (!homes.contains(n), t.distance(first, *n), *n));
        let mut needed = wanted.0;
        let mut used = Vec::new();
        for node in nodes {
            let home = homes.contains(&node);
            if !home && !used.is_empty() && needed == 0 {
                break;
            }
            let here = if told {
                self.left[node].min(needed)
            } else {
                needed
            };
            if home || here > 0 || used.is_empty() {
                needed -= here;
                self.left[node] = self.left[node].saturating_sub(here);
                used.push(node);
            }
        }
        let strangers = used.iter().any(|n| !homes.contains(n));
        let ids = CpuList::new(used.iter().map(|n| t.nodes[*n].id).collect());
        let why = match (strangers, nic) {
            (true, _) if homes.iter().all(|h| told && t.nodes[*h].bytes == 0) => {
                "the nearest; the memory node of its cores has no memory".into()
            }
            (true, _) => {
                format!("its {wanted} do not fit beside its cores; the nearest has the rest")
            }
            (false, Some((name, id))) if ids.contains(id) => {
                format!("where its cores and `{name}` are")
            }
            (false, _) => "where its cores are".into(),
        };
        Some(MemoryPlace { nodes: ids, why })
    }
}
