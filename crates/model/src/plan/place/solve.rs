//! Which cores each node gets that wants its own.
//!
//! A node's cores should be of one kind, on one memory node, below one cache. First a bounded search looks for a
//! choice in which no node needs two memory nodes; where there is none (or none is found in time), each node gets the
//! best that is left, the greediest first. Nothing is random, so equal questions have equal answers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::topology::Topology;

/// Steps of the search. Labs that need more are so large that the greedy choice is as good.
const MAX_STEPS: usize = 20_000;

/// Wishes that are searched for together, for the same reason.
const MAX_SEARCHED: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The first works, the others idle.
    Idle,
    Whole,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// CPUs; at least one.
    pub cpus: usize,
    /// Bytes of memory, when it says.
    pub memory: u64,
    /// Index of the memory node of its network interface.
    pub nic: Option<usize>,
    /// Indices of the wishes that it shares a link with.
    pub peers: Vec<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Got {
    /// Its cores, ascending.
    pub cores: Vec<usize>,
    /// All on one memory node.
    pub local: bool,
}

/// Part of a machine in which a node's cores could be: one memory node, one kind or any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    node: usize,
    class: Option<usize>,
}

struct Search<'t> {
    topology: &'t Topology,
    wishes: &'t [Wish],
    threads: Threads,
    free: BTreeSet<usize>,
    /// Bytes left on each memory node.
    memory: Vec<u64>,
    got: Vec<Option<Got>>,
    steps: usize,
}

/// Gives every wish cores out of `free`; `None` when there are not enough.
pub fn solve(
    topology: &Topology,
    free: &BTreeSet<usize>,
    wishes: &[Wish],
    threads: Threads,
) -> Option<Vec<Got>> {
    let mut search = Search {
        topology,
        wishes,
        threads,
        free: free.clone(),
        memory: topology.nodes.iter().map(|n| n.bytes).collect(),
        got: vec![None; wishes.len()],
        steps: 0,
    };
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by_key(|w| Reverse(wishes[*w].cpus));
    let searched = wishes.len() <= MAX_SEARCHED && search.all_local(&order);
    let found = searched || search.greedy(&order);
    found.then(|| search.got.into_iter().flatten().collect())
}

/// The CPUs of cores that work.
pub fn working(topology: &Topology, cores: &[usize], cpus: usize, threads: Threads) -> Vec<u32> {
    let of_core = |core: &usize| -> Vec<u32> {
        let all = &topology.cores[*core].threads;
        match threads {
            Threads::Idle => all.iter().take(1).copied().collect(),
            Threads::Whole => all.clone(),
        }
    };
    cores.iter().flat_map(of_core).take(cpus).collect()
}

impl Search<'_> {
    fn units(&self, core: usize) -> usize {
        match self.threads {
            Threads::Idle => 1,
            Threads::Whole => self.topology.cores[core].threads.len(),
        }
    }

    /// Looks for a choice in which every node is on one memory node, with its memory.
    fn all_local(&mut self, order: &[usize]) -> bool {
        let Some((&wish, rest)) = order.split_first() else {
            return true;
        };
        for area in self.areas(wish) {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return false;
            }
            let memory = self.wishes[wish].memory;
            if !self.has_memory(area.node, memory) {
                continue;
            }
            let Some(cores) = self.pick(self.free_in(area), self.wishes[wish].cpus) else {
                continue;
            };
            self.take(wish, cores, area.node, memory);
            if self.all_local(rest) {
                return true;
            }
            self.give_back(wish, area.node, memory);
        }
        false
    }

    /// The best that is left for each in turn.
    fn greedy(&mut self, order: &[usize]) -> bool {
        for &wish in order {
            let Wish { cpus, memory, .. } = self.wishes[wish];
            let areas = self.areas(wish);
            // Cores near each other matter more than memory near them.
            let with_memory = areas.iter().filter(|a| self.has_memory(a.node, memory));
            let choice = with_memory.chain(&areas).find_map(|area| {
                let cores = self.pick(self.free_in(*area), cpus)?;
                Some((cores, area.node))
            });
            match choice.or_else(|| self.spread(wish)) {
                Some((cores, node)) => self.take(wish, cores, node, memory),
                None => return false,
            }
        }
        true
    }

    /// Cores of several memory nodes, near each other: from the node with the most that are free (or
    /// the interface's), going outwards.
    fn spread(&self, wish: usize) -> Option<(Vec<usize>, usize)> {
        let Wish { cpus, nic, .. } = self.wishes[wish];
        let nodes = 0..self.topology.nodes.len();
        let free = |node: usize| self.free_in(Area { node, class: None }).len();
        let first = nic.or_else(|| nodes.clone().max_by_key(|n| (free(*n), Reverse(*n))))?;
        let mut outwards: Vec<usize> = nodes.collect();
        outwards.sort_by_key(|n| (self.topology.distance(first, *n), Reverse(free(*n)), *n));
        let (mut cores, mut units) = (Vec::new(), 0);
        for node in outwards {
            let here = self.free_in(Area { node, class: None });
            let most = here.iter().map(|c| self.units(*c)).sum::<usize>();
            let wanted = most.min(cpus - units);
            if wanted > 0 {
                cores.extend(self.pick(here, wanted)?);
                units += wanted;
            }
        }
        cores.sort_unstable();
        (units == cpus).then_some((cores, first))
    }

    fn has_memory(&self, node: usize, bytes: u64) -> bool {
        // A machine that does not tell its memory is not held to it.
        let told = self.topology.nodes.iter().any(|n| n.bytes > 0);
        !told || (self.topology.nodes[node].bytes > 0 && self.memory[node] >= bytes)
    }

    fn free_in(&self, area: Area) -> Vec<usize> {
        let cores = &self.topology.cores;
        let there = |c: &usize| {
            cores[*c].node == area.node && area.class.is_none_or(|class| class == cores[*c].class)
        };
        self.free.iter().copied().filter(there).collect()
    }

    /// Where a wish could go, the best first: near its interface, with its peers, fast cores of one
    /// kind; among equals where it leaves the least behind, and far from the host's core.
    fn areas(&self, wish: usize) -> Vec<Area> {
        let Wish {
            nic, peers, cpus, ..
        } = &self.wishes[wish];
        let classes = self.topology.classes.len().max(1);
        let mut areas = Vec::new();
        for node in 0..self.topology.nodes.len() {
            let kinds = (0..classes).map(Some);
            let mixed = (classes > 1).then_some(None);
            areas.extend(kinds.chain(mixed).map(|class| Area { node, class }));
        }
        let on_node = |node: usize| {
            let placed = peers.iter().filter_map(|p| self.got[*p].as_ref());
            placed
                .filter(|g| self.topology.cores[g.cores[0]].node == node)
                .count()
        };
        areas.sort_by_cached_key(|area| {
            let far = nic.map_or(0, |nic| self.topology.distance(nic, area.node));
            let left: usize = self.free_in(*area).iter().map(|c| self.units(*c)).sum();
            let class = area.class.unwrap_or(classes);
            let left = left.checked_sub(*cpus).unwrap_or(usize::MAX);
            (
                far,
                Reverse(on_node(area.node)),
                class,
                left,
                Reverse(area.node),
            )
        });
        areas
    }

    /// Cores out of `from` that are worth `units`: below one cache if one has enough, and of these the
    /// cache with the least to spare; the highest numbers first.
    fn pick(&self, from: Vec<usize>, units: usize) -> Option<Vec<usize>> {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for core in from {
            groups
                .entry(self.topology.cores[core].cache)
                .or_default()
                .push(core);
        }
        let worth = |cores: &[usize]| cores.iter().map(|c| self.units(*c)).sum::<usize>();
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        groups.sort_by_key(|g| (worth(g), Reverse(g[0])));
        let enough = groups.iter().position(|g| worth(g) >= units);
        let mut cores = Vec::new();
        match enough {
            Some(one) => cores.extend(groups[one].iter().rev()),
            None => cores.extend(groups.iter().rev().flat_map(|g| g.iter().rev())),
        }
        let mut sum = 0;
        let count = cores.iter().position(|core: &usize| {
            sum += self.units(*core);
            sum >= units
        })?;
        cores.truncate(count + 1);
        cores.sort_unstable();
        Some(cores)
    }

    fn take(&mut self, wish: usize, cores: Vec<usize>, node: usize, memory: u64) {
        for core in &cores {
            self.free.remove(core);
        }
        self.memory[node] = self.memory[node].saturating_sub(memory);
        let local = cores.iter().all(|c| self.topology.cores[*c].node == node);
        self.got[wish] = Some(Got { cores, local });
    }

    fn give_back(&mut self, wish: usize, node: usize, memory: u64) {
        if let Some(got) = self.got[wish].take() {
            self.free.extend(got.cores);
        }
        // Only what fitted was taken, so this restores it.
        self.memory[node] = self.memory[node].saturating_add(memory);
    }
}
