//! The cores that can be given at all, after the host's own, other labs', and those that the lab names.

use std::collections::{BTreeMap, BTreeSet};

use super::asks::{Ask, Asks, Want};
use super::topology::Topology;
use crate::diagnostic::{Diagnostics, Spanned};
use crate::facts::Facts;
use crate::units::CpuList;

/// Memory nodes with fewer cores keep none for the host.
const CORES_FOR_HOUSEKEEPING: usize = 4;

#[derive(Debug)]
pub struct Ground {
    pub topology: Topology,
    /// The core that always stays with the host.
    pub host: usize,
    /// Further cores that the host had better keep: one on each further memory node.
    pub further: Vec<usize>,
    pub free: BTreeSet<usize>,
    /// Cores that some node names, without being alone there; the pool has them too.
    pub named: BTreeSet<usize>,
    pub taken: BTreeSet<usize>,
    /// Cores that nodes name for themselves alone, with the index of the node.
    pub claimed: BTreeMap<usize, usize>,
}

impl Ground {
    /// Looks at the machine and at what the lab names; mistakes in that are noted.
    pub fn new(asks: &Asks<'_>, facts: &Facts, errors: &mut Diagnostics) -> Option<Ground> {
        let topology = Topology::of(facts);
        let taken: BTreeSet<usize> = facts
            .cpus_taken
            .iter()
            .filter_map(|c| topology.core(*c))
            .collect();
        let listed = |topology: &Topology, core: usize| {
            let mut cpus = topology.cores[core].threads.iter();
            let listed = asks.listed.as_ref();
            listed.is_none_or(|listed| cpus.any(|cpu| listed.contains(*cpu)))
        };
        let mut untaken = (0..topology.cores.len()).filter(|c| !taken.contains(c));
        let unlisted = untaken.find(|c| asks.listed.is_none() || !listed(&topology, *c));
        let Some(host) = unlisted else {
            refuse_all(asks, &topology, errors);
            return None;
        };
        let mut ground = Ground {
            host,
            further: Vec::new(),
            free: BTreeSet::new(),
            named: BTreeSet::new(),
            claimed: BTreeMap::new(),
            taken,
            topology,
        };
        ground.name(asks, facts, errors);
        let cores = 0..ground.topology.cores.len();
        let open = |c: &usize| {
            *c != host
                && ground.topology.cores[*c].whole
                && !ground.taken.contains(c)
                && !ground.claimed.contains_key(c)
                && !ground.named.contains(c)
                && listed(&ground.topology, *c)
        };
        ground.free = cores.filter(open).collect();
        ground.further = ground.further();
        Some(ground)
    }

    /// The first free core of each memory node but the host core's.
    fn further(&self) -> Vec<usize> {
        let cores = &self.topology.cores;
        let others = (0..self.topology.nodes.len()).filter(|n| *n != cores[self.host].node);
        others
            .filter(|n| cores.iter().filter(|c| c.node == *n).count() >= CORES_FOR_HOUSEKEEPING)
            .filter_map(|n| self.free.iter().copied().find(|c| cores[*c].node == n))
            .collect()
    }

    fn name(&mut self, asks: &Asks<'_>, facts: &Facts, errors: &mut Diagnostics) {
        for (index, ask) in asks.all.iter().enumerate() {
            let Want::Named(set, alone) = ask.want else {
                continue;
            };
            if let Some(missing) = set.iter().find(|c| !facts.cpus.contains(*c)) {
                let message = format!(
                    "node `{}` wants CPU {missing}; this machine has {}",
                    ask.name(),
                    facts.cpus
                );
                errors.add(set.at, message, "name CPUs that the machine has");
            } else if alone {
                self.claim(asks, index, set, errors);
            }
        }
        for ask in &asks.all {
            if let Want::Named(set, false) = ask.want {
                self.share(asks, ask, set, facts, errors);
            }
        }
    }

    /// Gives the CPUs that a node names to it alone, and with them their cores.
    fn claim(
        &mut self,
        asks: &Asks<'_>,
        index: usize,
        set: &Spanned<CpuList>,
        errors: &mut Diagnostics,
    ) {
        let name = asks.all[index].name();
        for cpu in set.iter() {
            let Some(core) = self.topology.core(cpu) else {
                continue;
            };
            let named = |i: usize| matches!(asks.all[i].want, Want::Named(s, _) if s.contains(cpu));
            let owner = match self.claimed.get(&core) {
                _ if core == self.host => "always belongs to the host".into(),
                _ if self.taken.contains(&core) => "already belongs to another lab".into(),
                Some(other) if *other == index => continue,
                Some(other) if named(*other) => {
                    format!("already belongs to node `{}`", asks.all[*other].name())
                }
                Some(other) => format!(
                    "is on a core of node `{}`, which owns all of its threads",
                    asks.all[*other].name()
                ),
                None => {
                    self.claimed.insert(core, index);
                    continue;
                }
            };
            let message = format!("CPU {cpu} of node `{name}` {owner}");
            let hint = "with `isolate`, a CPU belongs to one node: name another in `cpuset`";
            errors.add(set.at, message, hint);
        }
    }

    /// Notes the CPUs that a node names without being alone there.
    fn share(
        &mut self,
        asks: &Asks<'_>,
        ask: &Ask<'_>,
        set: &Spanned<CpuList>,
        facts: &Facts,
        errors: &mut Diagnostics,
    ) {
        for cpu in set.iter().filter(|c| facts.cpus.contains(*c)) {
            let Some(core) = self.topology.core(cpu) else {
                continue;
            };
            let Some(owner) = self.claimed.get(&core) else {
                self.named.insert(core);
                continue;
            };
            let owner = asks.all[*owner].name();
            let message = format!(
                "CPU {cpu} of node `{}` belongs to node `{owner}` alone",
                ask.name()
            );
            let hint = "name other CPUs, or drop the other node's `isolate`";
            errors.add(set.at, message, hint);
            return;
        }
    }
}

/// No core is left for the host.
fn refuse_all(asks: &Asks<'_>, topology: &Topology, errors: &mut Diagnostics) {
    let asking = asks.all.iter().find(|a| a.want != Want::Host);
    let Some(ask) = asking.filter(|_| !topology.cores.is_empty()) else {
        return;
    };
    let at = ask.tuning.map_or(ask.node.name.at, |t| t.at);
    let (why, hint) = if asks.listed.is_some() {
        (
            "the profile's `cores` leave none to the host",
            "keep CPU 0, and what shares its core, out of the profile's `cores`",
        )
    } else {
        (
            "every core belongs to another lab",
            "`latlab inspect` lists the labs; `latlab destroy` gives their cores back",
        )
    };
    let message = format!("node `{}` cannot be placed: {why}", ask.name());
    errors.add(at, message, hint);
}
