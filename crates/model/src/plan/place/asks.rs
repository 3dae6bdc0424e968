//! The wishes of each node of a lab.

use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};
use crate::facts::Facts;
use crate::profile::{Isolation, Profile};
use crate::spec::{Lab, Link, Node};
use crate::units::CpuList;

pub type Profiles<'p> = &'p dyn Fn(&str) -> Option<Profile>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Want<'l> {
    /// This number of its own.
    Own(usize),
    /// These, alone or not.
    Named(&'l Spanned<CpuList>, bool),
    /// Those that it shares only with the lab's other nodes.
    Pool,
    Host,
}

#[derive(Debug, Clone)]
pub struct Ask<'l> {
    pub node: &'l Node,
    pub want: Want<'l>,
    pub tuning: Option<&'l Spanned<String>>,
    /// Its profile keeps cores for itself.
    pub isolates: bool,
}

impl Ask<'_> {
    /// Virtual CPUs of a guest; 0 for other kinds.
    pub fn vcpus(&self) -> usize {
        let cpus = self.node.fields.cpus.map_or(1.0, |c| c.value);
        if self.node.kind.is_guest() {
            cpus as usize
        } else {
            0
        }
    }

    pub fn name(&self) -> &str {
        &self.node.name.value
    }
}

#[derive(Debug)]
pub struct Asks<'l> {
    pub all: Vec<Ask<'l>>,
    /// The CPUs that its profiles name themselves.
    pub listed: Option<CpuList>,
}

impl<'l> Asks<'l> {
    /// Reads them; unknown profiles are noted.
    pub fn read(
        lab: &'l Lab,
        facts: &Facts,
        profiles: Profiles<'_>,
        errors: &mut Diagnostics,
    ) -> Asks<'l> {
        let mut known: Vec<(&str, Option<Isolation>)> = Vec::new();
        let mut isolation = |tuning: &'l Spanned<String>, errors: &mut Diagnostics| {
            if let Some((_, found)) = known.iter().find(|(name, _)| *name == tuning.as_str()) {
                return found.clone();
            }
            let found = Profile::named(tuning, profiles).map(|p| p.cores);
            if found.is_none() {
                let message = format!("there is no tuning profile `{}`", shown(tuning));
                let hint = hint_one_of(tuning, &Profile::builtin_names());
                errors.add(tuning.at, message, hint);
            }
            known.push((tuning.as_str(), found.clone()));
            found
        };
        // A lab's own profile is checked though no node may follow it.
        lab.tuning.iter().for_each(|t| drop(isolation(t, errors)));
        let mut listed: Option<Vec<u32>> = None;
        let mut all = Vec::new();
        for node in &lab.nodes {
            let tuning = lab.tuning_of(node);
            let kept = tuning
                .and_then(|t| isolation(t, errors))
                .unwrap_or_default();
            if let Isolation::Listed(cpus) = &kept {
                listed.get_or_insert_default().extend(cpus.iter());
            }
            let isolates = kept != Isolation::Shared;
            let want = want(node, isolates);
            if let Some(lack) = facts
                .lacks(Facts::CGROUP_CPUSET)
                .filter(|_| want == Want::Pool)
            {
                let at = tuning.map_or(node.name.at, |t| t.at);
                let message = format!(
                    "`tuning` of node `{}` cannot be enforced: {}",
                    *node.name, lack.reason
                );
                let hint = lack.remedy.as_deref().unwrap_or("use `tuning: default`");
                errors.add(at, message, hint);
            }
            all.push(Ask {
                node,
                want,
                tuning,
                isolates,
            });
        }
        Asks {
            all,
            listed: listed.map(CpuList::new),
        }
    }

    pub fn pooled(&self) -> impl Iterator<Item = &Ask<'l>> {
        self.all.iter().filter(|a| a.want == Want::Pool)
    }
}

fn want(node: &Node, isolates: bool) -> Want<'_> {
    let isolate = node.fields.isolate.is_some_and(|i| i.value);
    if node.kind.is_host() {
        return Want::Host;
    }
    match &node.fields.cpuset {
        Some(set) => Want::Named(set, isolate),
        None if isolate => {
            let cpus = node.fields.cpus.map_or(1.0, |c| c.value);
            Want::Own((cpus.ceil() as usize).max(1))
        }
        None if isolates => Want::Pool,
        None => Want::Host,
    }
}

/// The host's interface below a node's macvlan, or that it has itself, with its memory node; the first that has one.
pub fn nic_of<'l>(lab: &'l Lab, node: &str, facts: &Facts) -> Option<(&'l str, u32)> {
    let on_host = |link: &'l Link| {
        let end = link.endpoints.iter().position(|e| e.node.value == node)?;
        let own = link.interfaces.get(end);
        own.or(link.parent.as_ref()).map(|i| i.as_str())
    };
    lab.links
        .iter()
        .filter_map(on_host)
        .find_map(|name| Some((name, facts.nic(name)?.numa_node?)))
}
