//! The machine as placement sees it: cores with their threads, memory node, kind and nearest shared
//! cache. Where facts do not tell, every CPU is a core, and all are near each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::Facts;
use crate::units::CpuList;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its threads that may be used, ascending; never none.
    pub threads: Vec<u32>,
    /// All of its threads may be used. Of another, some belong to who knows whom.
    pub whole: bool,
    /// Index into [`Topology::nodes`].
    pub node: usize,
    /// 0 is the fastest kind.
    pub class: usize,
    /// Names the smallest cache that it shares with other cores.
    pub cache: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: u32,
    /// Bytes of memory; 0 when not told.
    pub bytes: u64,
    /// Distance to each node, by index.
    pub distances: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Its cores, by their first thread.
    pub cores: Vec<Core>,
    /// Its memory nodes, by number; never none.
    pub nodes: Vec<Node>,
    /// Names of the kinds of cores, the fastest first; empty where there is one only.
    pub classes: Vec<String>,
    of_cpu: BTreeMap<u32, usize>,
}

/// Distance where the machine tells none (ACPI's values for near and far).
const NEAR: u32 = 10;
const FAR: u32 = 20;

impl Topology {
    pub fn of(facts: &Facts) -> Topology {
        let processors = &facts.machine.processors;
        let usable: BTreeSet<u32> = facts.cpus.iter().collect();
        let mut first_of: BTreeMap<u32, &CpuList> = BTreeMap::new();
        for set in &processors.siblings {
            for cpu in set.iter().take(64) {
                first_of.entry(cpu).or_insert(set);
            }
        }
        let (nodes, node_of) = nodes(facts);
        let class_of = index_of(processors.classes.iter().map(|c| &c.cpus));
        let cache_of = caches(facts);
        let mut cores = Vec::new();
        let mut of_cpu = BTreeMap::new();
        for cpu in facts.cpus.iter() {
            if of_cpu.contains_key(&cpu) {
                continue;
            }
            let all: Vec<u32> = first_of
                .get(&cpu)
                .map_or(vec![cpu], |s| s.iter().take(64).collect());
            let threads: Vec<u32> = all
                .iter()
                .copied()
                .filter(|c| usable.contains(c) && !of_cpu.contains_key(c))
                .collect();
            of_cpu.extend(threads.iter().map(|c| (*c, cores.len())));
            let node = node_of.get(&cpu).copied().unwrap_or_default();
            cores.push(Core {
                whole: threads.len() == all.len(),
                threads,
                node,
                class: class_of.get(&cpu).copied().unwrap_or_default(),
                // Without a shared cache, those of a memory node are nearest to each other.
                cache: cache_of
                    .get(&cpu)
                    .copied()
                    .unwrap_or(u32::MAX - node as u32),
            });
        }
        let classes = processors.classes.iter().map(|c| c.name.clone());
        Topology {
            cores,
            nodes,
            classes: classes.collect(),
            of_cpu,
        }
    }

    pub fn core(&self, cpu: u32) -> Option<usize> {
        self.of_cpu.get(&cpu).copied()
    }

    pub fn is_numa(&self) -> bool {
        self.nodes.len() > 1
    }

    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let told = self.nodes[from].distances.get(to).copied();
        told.unwrap_or(if from == to { NEAR } else { FAR })
    }

    pub fn node(&self, id: u32) -> Option<usize> {
        self.nodes.iter().position(|n| n.id == id)
    }

    pub fn threads(&self, cores: impl IntoIterator<Item = usize>) -> Vec<u32> {
        let threads = cores
            .into_iter()
            .flat_map(|c| self.cores[c].threads.iter().copied());
        let mut threads: Vec<u32> = threads.collect();
        threads.sort_unstable();
        threads
    }
}

fn nodes(facts: &Facts) -> (Vec<Node>, BTreeMap<u32, usize>) {
    let mut told: Vec<_> = facts.machine.processors.numa.iter().collect();
    told.sort_by_key(|n| n.id);
    told.dedup_by_key(|n| n.id);
    let of_cpu = index_of(told.iter().filter_map(|n| n.cpus.as_ref()));
    // The index counts only nodes with CPUs; a node of memory only keeps its own place.
    let with_cpus: Vec<usize> = (0..told.len())
        .filter(|i| told[*i].cpus.is_some())
        .collect();
    let of_cpu = of_cpu.into_iter().map(|(cpu, i)| (cpu, with_cpus[i]));
    let of_cpu = of_cpu.collect();
    let mut nodes: Vec<Node> = told
        .iter()
        .map(|n| Node {
            id: n.id,
            bytes: n.memory_bytes,
            distances: n.distances.clone(),
        })
        .collect();
    if nodes.is_empty() {
        nodes.push(Node {
            id: 0,
            bytes: 0,
            distances: Vec::new(),
        });
    }
    (nodes, of_cpu)
}

/// Which of the lists each CPU is in; the first that has it.
fn index_of<'a>(lists: impl Iterator<Item = &'a CpuList>) -> BTreeMap<u32, usize> {
    let mut index = BTreeMap::new();
    for (i, list) in lists.enumerate() {
        for cpu in list.iter() {
            index.entry(cpu).or_insert(i);
        }
    }
    index
}

/// The first CPU of the smallest group of sharers that each CPU is in.
fn caches(facts: &Facts) -> BTreeMap<u32, u32> {
    let caches = &facts.machine.processors.caches;
    let mut groups: Vec<&CpuList> = caches.iter().flat_map(|c| &c.groups).collect();
    groups.sort_by_key(|g| (g.len(), g.iter().next()));
    let mut of_cpu = BTreeMap::new();
    for group in groups {
        let name = group.iter().next().unwrap_or_default();
        for cpu in group.iter() {
            of_cpu.entry(cpu).or_insert(name);
        }
    }
    of_cpu
}
