//! The split of the machine's CPUs when several owners isolate some.
//!
//! A lab asks for its own CPUs and knows nothing of other labs. The values in force must suit all owners: the
//! isolated CPUs are those of all owners together, and everything else goes to the remaining ones. So the
//! journal keeps each owner's wanted value per knob, and when an owner comes or goes whose CPUs change the
//! split, the items that depend on it get new values. Their originals stay those from before the first owner.

use std::collections::BTreeMap;

use latlab_model::profile::{Cores, Profile, Wanted};
use latlab_model::units::CpuList;

use super::error::Error;
use super::items::{Item, Value};
use super::journal::{Entry, Journal};
use super::knobs::{Knob, KnobError, Machine, Mapping};
use super::owner::Owner;
use super::plan::{Change, plan_one};
use super::root::Root;

/// The knob that creates the partition. Owners that do not want it have no CPUs in the partition.
const CPUSET: &str = "cpuset";
/// The knobs that an owner without isolated CPUs wants on all CPUs, whatever others isolate.
const PER_CPU: [&str; 2] = ["idle-states", "resume-latency"];
/// The partition type that suits every owner: one that wants no load balancing pins its threads.
const BALANCED: &str = "root";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuSplit {
    online: CpuList,
    isolated: CpuList,
    /// The isolated CPUs that are in the partition.
    partition: CpuList,
    /// An owner wants load balancing within the partition.
    balanced: bool,
}

impl CpuSplit {
    pub fn of(owners: &[Owner]) -> CpuSplit {
        let mut all = CpuSplit::default();
        let join = |a: &CpuList, b: &CpuList| CpuList::new(a.iter().chain(b.iter()).collect());
        for owner in owners {
            all.online = join(&all.online, &owner.online);
            all.isolated = join(&all.isolated, &owner.isolated);
            if let Some(mode) = owner.knobs.get(CPUSET) {
                all.partition = join(&all.partition, &owner.isolated);
                all.balanced |= mode == BALANCED;
            }
        }
        all
    }

    /// The CPUs as one knob sees them, of an owner that isolates some or none.
    fn cores(&self, knob: &str, isolates: bool) -> Result<Cores, Error> {
        if !isolates && PER_CPU.contains(&knob) {
            return Ok(Cores::shared(&self.online));
        }
        let isolated = if knob == CPUSET {
            &self.partition
        } else {
            &self.isolated
        };
        Cores::new(&self.online, isolated).map_err(Error::impossible)
    }

    /// The wanted value of a knob, given all owners.
    fn wanted(&self, knob: &Knob, text: &str) -> Result<Wanted, Error> {
        let text = if knob.name == CPUSET && self.balanced {
            BALANCED
        } else {
            text
        };
        let mut profile = Profile::empty();
        profile.want(knob.name, text).map_err(Error::impossible)?;
        let wanted = profile.knobs.remove(knob.name);
        wanted.ok_or_else(|| Error::Impossible {
            message: format!("knob `{}`: `{text}` is no value of it", knob.name),
            hint: "report this".into(),
        })
    }

    /// Plans the changes anew: another owner may have changed items, or given them back, since they were planned without
    /// the lock. `isolates`: whether their owner isolates CPUs.
    pub fn plan(
        &self,
        changes: &[Change],
        isolates: bool,
        root: &Root,
    ) -> Result<Vec<Change>, Error> {
        let one = |change: &Change| {
            if change.absent.is_some() {
                return Ok(change.clone());
            }
            let wanted = self.wanted(change.knob, &change.wanted.to_string())?;
            let cores = self.cores(change.knob.name, isolates)?;
            plan_one(change.knob, &wanted, &cores, root)
        };
        changes.iter().map(one).collect()
    }
}

/// Adds an owner's wanted values. Earlier values stay: another value now is a conflict, as between two owners.
pub(super) fn add_owner_wants(
    journal: &mut Journal,
    name: &str,
    changes: &[Change],
) -> Result<(), Error> {
    let there = changes.iter().filter(|change| change.absent.is_none());
    let Some(first) = there.clone().next() else {
        return Ok(());
    };
    let known = journal.owners.iter().position(|owner| owner.name == name);
    let index = known.unwrap_or_else(|| {
        journal.owners.push(Owner {
            name: name.to_string(),
            ..Owner::default()
        });
        journal.owners.len() - 1
    });
    let owner = &mut journal.owners[index];
    owner.online = first.cores.all();
    let isolated = &first.cores.isolated;
    if owner.isolated.is_empty() {
        owner.isolated.clone_from(isolated);
    } else if !isolated.is_empty() && owner.isolated != *isolated {
        return Err(Error::Conflict {
            knob: first.knob.name.to_string(),
            item: "the list of quiet CPUs".into(),
            first: owner.isolated.to_string(),
            owners: name.to_string(),
            second: isolated.to_string(),
        });
    }
    for change in there {
        let knob = change.knob.name.to_string();
        let wanted = || change.wanted.to_string();
        owner.knobs.entry(knob).or_insert_with(wanted);
    }
    Ok(())
}

/// Recomputes the wanted values for a new CPU split, and drops owners that no longer want an entry. Nothing is
/// written to the machine.
pub(super) fn retarget(journal: &mut Journal, to: &CpuSplit, root: &Root) -> Result<(), Error> {
    let owners = journal.owners.clone();
    let mut planned: BTreeMap<(String, String), Vec<(Item, Value)>> = BTreeMap::new();
    for entry in &mut journal.entries {
        let Some(knob) = Knob::named(&entry.knob) else {
            continue;
        };
        let mut value: Option<Value> = None;
        let mut stay = Vec::new();
        for name in entry.owners.clone() {
            let owner = owners.iter().find(|owner| owner.name == name);
            let wants = owner.and_then(|owner| Some((owner, owner.knobs.get(&entry.knob)?)));
            let Some((owner, text)) = wants else {
                // An owner that left while its restore failed.
                stay.push(name);
                continue;
            };
            let wanted = to.wanted(knob, text)?;
            let cores = to.cores(knob.name, owner.isolates())?;
            let machine = Machine {
                root,
                cores: &cores,
            };
            let new = match knob.mapping {
                Mapping::Moving { retarget, .. } => {
                    Some(retarget(&machine, &wanted, entry).map_err(|error| refused(knob, error))?)
                }
                _ => {
                    let key = (name.clone(), entry.knob.clone());
                    let targets = match planned.get(&key) {
                        Some(targets) => targets,
                        None => {
                            let change = plan_one(knob, &wanted, &cores, root)?;
                            let targets = change.targets.into_iter().map(|t| (t.item, t.wanted));
                            planned.entry(key).or_insert(targets.collect())
                        }
                    };
                    let found = targets.iter().find(|(item, _)| *item == entry.item);
                    found.map(|(_, wanted)| wanted.clone())
                }
            };
            let Some(new) = new else {
                continue;
            };
            stay.push(name);
            if let Some(first) = value.as_ref().filter(|v| !v.same(&new)) {
                return Err(Error::Conflict {
                    knob: entry.knob.clone(),
                    item: entry.item.to_string(),
                    first: first.to_string(),
                    owners: entry.owners.join(", "),
                    second: new.to_string(),
                });
            }
            value = Some(new);
        }
        entry.owners = stay;
        if let Some(new) = value {
            set_target(entry, new);
        }
    }
    Ok(())
}

/// Sets an entry's wanted value, and remembers the one that may still be in force.
fn set_target(entry: &mut Entry, new: Value) {
    if entry.wanted != new {
        let was = std::mem::replace(&mut entry.wanted, new);
        entry.earlier.get_or_insert(was);
    }
}

fn refused(knob: &Knob, error: KnobError) -> Error {
    let (message, hint) = match error {
        KnobError::Absent(reason) => (reason, "leave this knob out (`--without`)".into()),
        KnobError::Impossible(message, hint) => (message, hint),
    };
    Error::Impossible {
        message: format!("knob `{}`: {message}", knob.name),
        hint,
    }
}
