//! How the machine's processors are divided when several owners keep some quiet.
//!
//! A lab asks for its own cores and knows nothing of the others. What is in force must be right for all of
//! them: the quiet processors are those of all owners together, and everything else goes to what is left.
//! So the journal says of each owner what it wants of which knob, and when one comes or goes whose cores
//! change the division, the things that depend on it get new values. Their originals stay what they were
//! before the first of them.

use std::collections::BTreeMap;

use latlab_model::profile::{Cores, Profile, Wanted};
use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

use super::items::Item;
use super::journal::{Entry, Journal};
use super::knobs::{Knob, Machine, Value, Why};
use super::{Change, Error, Root, plan_one};

/// The knob that makes the partition. Those who want nothing of it have no processors in it.
const CPUSET: &str = "cpuset";
/// Of the two kinds of partition the one that suits everybody: whoever wants no balancing pins its threads.
const BALANCED: &str = "root";

/// Somebody who tunes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// `user`, `lab NAME`.
    pub name: String,
    /// All processors of the machine.
    pub online: CpuList,
    /// Those that it keeps quiet.
    pub isolated: CpuList,
    /// What it wants, by knob, as a profile writes it.
    pub knobs: BTreeMap<String, String>,
}

/// What all owners together make of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Division {
    online: CpuList,
    isolated: CpuList,
    /// Of these, the partition's.
    partition: CpuList,
    /// Somebody wants the partition to be balanced within.
    balanced: bool,
}

impl Division {
    pub fn of(owners: &[Owner]) -> Division {
        let mut all = Division::default();
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

    /// The processors as one knob is to see them.
    fn cores(&self, knob: &str) -> Result<Cores, Error> {
        let isolated = match knob {
            CPUSET => &self.partition,
            _ => &self.isolated,
        };
        let impossible = |(message, hint)| Error::Impossible { message, hint };
        Cores::new(&self.online, isolated).map_err(impossible)
    }

    /// What an owner wants of a knob, beside the others.
    fn wanted(&self, knob: &Knob, text: &str) -> Result<Wanted, Error> {
        let text = match knob.name == CPUSET && self.balanced {
            true => BALANCED,
            false => text,
        };
        let impossible = |(message, hint)| Error::Impossible { message, hint };
        let mut profile = Profile::empty();
        profile.want(knob.name, text).map_err(impossible)?;
        let wanted = profile.knobs.remove(knob.name);
        wanted.ok_or_else(|| Error::Impossible {
            message: format!("knob `{}`: `{text}` is nothing to want", knob.name),
            hint: "report this".into(),
        })
    }

    /// The changes of one owner, planned anew for everybody's division.
    pub fn plan(&self, changes: &[Change], root: &Root) -> Result<Vec<Change>, Error> {
        let one = |change: &Change| {
            if change.absent.is_some() {
                return Ok(change.clone());
            }
            let wanted = self.wanted(change.knob, &change.wanted.to_string())?;
            let cores = self.cores(change.knob.name)?;
            match cores == change.cores && wanted == change.wanted {
                true => Ok(change.clone()),
                false => plan_one(change.knob, &wanted, &cores, root),
            }
        };
        changes.iter().map(one).collect()
    }
}

/// Adds what an owner wants. What it wanted before stays: that it wants otherwise now is a contradiction
/// like any other's.
pub(super) fn enrol(journal: &mut Journal, name: &str, changes: &[Change]) -> Result<(), Error> {
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
            item: "the list of quiet processors".into(),
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

/// Gives the entries their values in a new division, and takes out of each those owners who want nothing
/// of it any more. Nothing is written to the machine.
pub(super) fn retarget(journal: &mut Journal, to: &Division, root: &Root) -> Result<(), Error> {
    let owners = journal.owners.clone();
    let mut planned: BTreeMap<(String, String), Vec<(Item, String)>> = BTreeMap::new();
    for entry in &mut journal.entries {
        let Some(knob) = Knob::named(&entry.knob) else {
            continue;
        };
        let mut value: Option<String> = None;
        let mut stay = Vec::new();
        for name in entry.owners.clone() {
            let owner = owners.iter().find(|owner| owner.name == name);
            let text = owner.and_then(|owner| owner.knobs.get(&entry.knob));
            let Some(text) = text else {
                // One that left and has something to be restored still.
                stay.push(name);
                continue;
            };
            let wanted = to.wanted(knob, text)?;
            let cores = to.cores(knob.name)?;
            let machine = Machine {
                root,
                cores: &cores,
            };
            let new = match knob.value {
                Value::Moving { again, .. } => {
                    Some(again(&machine, &wanted, entry).map_err(|why| refused(knob, why))?)
                }
                _ => {
                    let key = (name.clone(), entry.knob.clone());
                    let wishes = match planned.get(&key) {
                        Some(wishes) => wishes,
                        None => {
                            let change = plan_one(knob, &wanted, &cores, root)?;
                            let wishes = change.wishes.into_iter().map(|w| (w.item, w.wanted));
                            planned.entry(key).or_insert(wishes.collect())
                        }
                    };
                    let found = wishes.iter().find(|(item, _)| *item == entry.item);
                    found.map(|(_, wanted)| wanted.clone())
                }
            };
            let Some(new) = new else {
                continue;
            };
            stay.push(name);
            if let Some(first) = value.as_ref().filter(|v| !entry.item.same(v, &new)) {
                return Err(Error::Conflict {
                    knob: entry.knob.clone(),
                    item: entry.item.to_string(),
                    first: first.clone(),
                    owners: entry.owners.join(", "),
                    second: new,
                });
            }
            value = Some(new);
        }
        entry.owners = stay;
        if let Some(new) = value {
            aim(entry, new);
        }
    }
    Ok(())
}

/// Gives an entry another value to come, and remembers the one that may still be in force.
fn aim(entry: &mut Entry, new: String) {
    if entry.wanted != new {
        let was = std::mem::replace(&mut entry.wanted, new);
        entry.earlier.get_or_insert(was);
    }
}

fn refused(knob: &Knob, why: Why) -> Error {
    let (message, hint) = match why {
        Why::Absent(reason) => (reason, "leave this knob out (`--without`)".into()),
        Why::Impossible(message, hint) => (message, hint),
    };
    Error::Impossible {
        message: format!("knob `{}`: {message}", knob.name),
        hint,
    }
}
