//! Applying changes: everything is checked, then journaled and synced, then written and read back.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::cpu_split::{self, CpuSplit};
use super::engine::{Outcome, Problem, apply_one, reapply};
use super::error::Error;
use super::items::{Item, Value};
use super::journal::{Entry, LockedJournal};
use super::plan::{Change, Target, plan_one};
use super::root::Root;
use crate::dirs::Dirs;

/// Sweeps over items that come, go and move while others are written.
const MAX_SWEEPS: usize = 5;

/// For more sweeps while the kernel refuses a partition, as it does as long as a group of others has one of its CPUs: on
/// a busy machine such groups may come in every sweep. Other items that are refused stay so.
const TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KnobResult {
    pub knob: &'static str,
    pub wanted: String,
    /// Why this machine does not have the knob; nothing was done then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    pub turned: usize,
    pub already: usize,
    /// Items that vanished meanwhile.
    pub gone: usize,
    pub fixed: Vec<Problem>,
    /// Items whose new value the kernel did not take.
    pub refused: Vec<Problem>,
    /// Threads and cgroups of other programs that changed again right after the write: a remark, no error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strayed: Vec<Problem>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// One per knob, in their order.
    pub knobs: Vec<KnobResult>,
    /// Entries of an earlier boot that were forgotten.
    pub forgotten: usize,
    /// Items of other owners that did not follow the new CPU split.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<Problem>,
}

impl Applied {
    pub fn is_good(&self) -> bool {
        self.unsettled.is_empty() && self.knobs.iter().all(|k| k.refused.is_empty())
    }
}

/// Applies `changes` for `owner`. `progress` is called with each knob, its index and their count. Errors: before the
/// first change: another owner wants another value, or an item or the journal cannot be written. Errors of single
/// items are in the result.
pub fn apply(
    owner: &str,
    changes: &[Change],
    dirs: &Dirs,
    root: &Root,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Applied, Error> {
    let mut held = LockedJournal::take(dirs, root)?;
    let before = CpuSplit::of(&held.journal.owners);
    cpu_split::add_owner_wants(&mut held.journal, owner, changes)?;
    let after = CpuSplit::of(&held.journal.owners);
    let mut owners = held.journal.owners.iter();
    let isolates = owners.any(|known| known.name == owner && known.isolates());
    let changes = &after.plan(changes, isolates, root)?;
    if after != before {
        cpu_split::retarget(&mut held.journal, &after, root)?;
    }
    for change in changes {
        check(change, &held, root)?;
    }
    for change in changes {
        if change.knob.moves() {
            add_owner(owner, change.knob.name, &mut held);
        }
        record(owner, change.knob.name, &change.targets, &mut held, root);
    }
    held.sync()?;
    let mut applied = Applied {
        forgotten: held.forgotten,
        ..Applied::default()
    };
    for (index, change) in changes.iter().enumerate() {
        progress(change.knob.name, index, changes.len());
        let mut result = KnobResult {
            knob: change.knob.name,
            wanted: change.wanted.to_string(),
            absent: change.absent.clone(),
            ..KnobResult::default()
        };
        apply_all(&change.targets, &mut held, root, &mut result);
        if change.knob.moves() {
            rescan(owner, change, &mut held, root, &mut result)?;
        }
        applied.knobs.push(result);
    }
    // Entries with a new CPU split that no knob of this owner has written.
    for entry in &mut held.journal.entries {
        if entry.earlier.is_some() {
            applied.unsettled.extend(reapply(entry, root));
        }
    }
    held.forget_idle_owners();
    held.sync()?;
    Ok(applied)
}

fn check(change: &Change, held: &LockedJournal, root: &Root) -> Result<(), Error> {
    for target in &change.targets {
        let knob = || change.knob.name.to_string();
        let entry = held.find(&target.item).map(|i| &held.journal.entries[i]);
        if let Some(entry) = entry {
            if !entry.wanted.same(&target.wanted) {
                return Err(Error::Conflict {
                    knob: knob(),
                    item: target.item.to_string(),
                    first: entry.wanted.to_string(),
                    owners: entry.owners.join(", "),
                    second: target.wanted.to_string(),
                });
            }
        }
        // A file of a cgroup that is still to be created cannot be tried yet.
        let to_come = matches!(target.item, Item::File { .. }) && target.current == Value::Absent;
        if target.holds() || to_come {
            continue;
        }
        match target.item.writable(root) {
            Err(source) if !target.item.is_fixed(&source) => {
                return Err(Error::ReadOnly {
                    knob: knob(),
                    item: target.item.to_string(),
                    source,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Adds the owner to all entries of a knob whose items come and go: such a knob plans only items that do not have
/// their value yet, and the others must keep theirs for this owner too.
fn add_owner(owner: &str, knob: &str, held: &mut LockedJournal) {
    let others = held.journal.entries.iter_mut().filter(|e| e.knob == knob);
    for entry in others.filter(|e| !e.owners.iter().any(|o| o == owner)) {
        entry.owners.push(owner.to_string());
    }
}

fn record(owner: &str, knob: &str, targets: &[Target], held: &mut LockedJournal, root: &Root) {
    for target in targets {
        match held.find(&target.item) {
            Some(index) => {
                let entry = &mut held.journal.entries[index];
                // Another program changed it since: undo returns to that value.
                let now = target.item.read(root).ok().flatten();
                if let Some(now) = now.filter(|n| !entry.is_ours(n) && !entry.original.same(n)) {
                    entry.original = now;
                }
                if !entry.owners.iter().any(|o| o == owner) {
                    entry.owners.push(owner.to_string());
                }
            }
            None => held.journal.entries.push(Entry {
                knob: knob.to_string(),
                item: target.item.clone(),
                original: target.current.clone(),
                wanted: target.wanted.clone(),
                earlier: None,
                rounded: None,
                owners: vec![owner.to_string()],
            }),
        }
    }
}

/// Looks for items that came meanwhile or do not have their value: cgroups of other programs block a partition for
/// a moment only, and their threads may move. Journals and writes these, at most [`MAX_SWEEPS`] times, or for
/// [`TIMEOUT`] if the kernel refuses a partition.
fn rescan(
    owner: &str,
    change: &Change,
    held: &mut LockedJournal,
    root: &Root,
    result: &mut KnobResult,
) -> Result<(), Error> {
    let begun = Instant::now();
    for sweep in 0.. {
        if sweep >= MAX_SWEEPS {
            if !result.refused.iter().any(is_partition) || begun.elapsed() > TIMEOUT {
                break;
            }
            thread::sleep(PAUSE);
        }
        let Ok(now) = plan_one(change.knob, &change.wanted, &change.cores, root) else {
            break;
        };
        let fixed = |target: &Target| {
            let name = target.item.to_string();
            result.fixed.iter().any(|p| p.item == name)
        };
        let mut new = now.targets;
        new.retain(|target| !target.holds() && !fixed(target));
        // Items that failed before and are not among these have vanished, or have their value by now.
        result.refused.clear();
        result.strayed.clear();
        if new.is_empty() {
            break;
        }
        record(owner, change.knob.name, &new, held, root);
        held.sync()?;
        apply_all(&new, held, root, result);
    }
    Ok(())
}

/// Whether an item is the file that makes a cgroup a partition, on version 2 or 1.
fn is_partition(problem: &Problem) -> bool {
    ["cpuset.cpus.partition", "cpuset.cpu_exclusive"]
        .iter()
        .any(|name| problem.item.ends_with(name))
}

fn apply_all(targets: &[Target], held: &mut LockedJournal, root: &Root, result: &mut KnobResult) {
    for target in targets {
        let problem = |reason: String| Problem::of(&target.item, reason);
        match apply_one(&target.item, &target.wanted, root) {
            Outcome::Applied => result.turned += 1,
            Outcome::Unchanged => result.already += 1,
            Outcome::Gone => {
                result.gone += 1;
                forget(&target.item, None, held);
            }
            Outcome::Fixed(reason, now) => {
                result.fixed.push(problem(reason));
                forget(&target.item, now.as_ref(), held);
            }
            Outcome::Refused(reason, now) => {
                result.refused.push(problem(reason));
                forget(&target.item, Some(&now), held);
            }
            Outcome::Rounded(reason, now) => {
                result.refused.push(problem(reason));
                forget(&target.item, Some(&now), held);
                if let Some(index) = held.find(&target.item) {
                    held.journal.entries[index].rounded = Some(now);
                }
            }
            Outcome::Strayed(reason) => {
                result.strayed.push(problem(reason));
                // Its present value is the other program's choice: nothing to undo.
                forget(&target.item, None, held);
            }
        }
    }
}

/// Drops the entry of an item that still has its original value, or vanished. On the disk the entry may stay until
/// the end: a revert finds nothing to do.
fn forget(item: &Item, now: Option<&Value>, held: &mut LockedJournal) {
    held.journal.entries.retain(|entry| {
        let untouched = now.is_none_or(|now| now.same(&entry.original));
        entry.item != *item || !untouched
    });
}
