//! Restoring the original values: needs only the journal, after a crash at any point, any number of times.

use serde::Serialize;

use super::cpu_split::{self, CpuSplit};
use super::engine::{Problem, reapply};
use super::error::Error;
use super::items::{Item, Value};
use super::journal::{Entry, LockedJournal};
use super::root::Root;
use crate::dirs::Dirs;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    pub restored: usize,
    /// Items that still had it, or vanished.
    pub nothing_to_do: usize,
    pub kept: usize,
    /// Items that another program changed meanwhile: left alone, and no longer tracked.
    pub foreign: Vec<Problem>,
    /// Threads and cgroups of other programs that moved or changed meanwhile: a remark, no error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strayed: Vec<Problem>,
    /// Items that could not be restored; they stay in the journal for another try.
    pub failed: Vec<Problem>,
    /// Entries of an earlier boot that were forgotten: their kernel is gone.
    pub forgotten: usize,
}

impl Reverted {
    /// Whether everything is as it was before.
    pub fn is_good(&self) -> bool {
        self.foreign.is_empty() && self.failed.is_empty()
    }
}

/// Removes an owner; an item returns to its original value with its last owner. Errors: the journal cannot be read or
/// written; errors of single items are in the result.
pub fn revert(
    owner: &str,
    dirs: &Dirs,
    root: &Root,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Reverted, Error> {
    let mut held = LockedJournal::take(dirs, root)?;
    let mut result = Reverted {
        forgotten: held.forgotten,
        ..Reverted::default()
    };
    leave_shared_entries(owner, &mut held, root, &mut result)?;
    let entries = std::mem::take(&mut held.journal.entries);
    let count = entries.len();
    let (mut left, mut failed) = (Vec::new(), Vec::new());
    for (index, mut entry) in entries.into_iter().rev().enumerate() {
        progress(&entry.knob, index, count);
        // An entry without owners was left by an earlier revert that was interrupted.
        if entry.owners.iter().all(|o| o == owner) {
            entry.owners.clear();
            failed.extend(undo(entry, root, &mut result));
        } else {
            if entry.earlier.is_some() {
                result.failed.extend(reapply(&mut entry, root));
            }
            left.push(entry);
        }
    }
    // A cgroup that was found after the partition was made gets its CPUs back once there is no partition.
    for (entry, _) in failed {
        if let Some((mut entry, problem)) = undo(entry, root, &mut result) {
            result.failed.push(problem);
            entry.owners.push(owner.to_string());
            left.push(entry);
        }
    }
    left.reverse();
    held.journal.entries = left;
    held.sync()?;
    Ok(result)
}

/// Removes the owner from shared entries and retargets these to a split without its CPUs: on the disk, before
/// anything is written to the machine.
fn leave_shared_entries(
    owner: &str,
    held: &mut LockedJournal,
    root: &Root,
    result: &mut Reverted,
) -> Result<(), Error> {
    let journal = &mut held.journal;
    for entry in &mut journal.entries {
        let others = |o: &String| o != owner;
        if entry.owners.iter().any(others) && !entry.owners.iter().all(others) {
            entry.owners.retain(others);
            result.kept += 1;
        }
    }
    let before = CpuSplit::of(&journal.owners);
    journal.owners.retain(|known| known.name != owner);
    let after = CpuSplit::of(&journal.owners);
    if after == before || journal.owners.is_empty() {
        return Ok(());
    }
    if let Err(error) = cpu_split::retarget(journal, &after, root) {
        // Entries of this owner alone are restored all the same.
        result.failed.push(Problem {
            item: "the items of other owners".into(),
            reason: error.to_string(),
        });
    }
    held.sync()
}

/// Restores one item; returns the entry if it must be tried again, and the reason.
fn undo(entry: Entry, root: &Root, result: &mut Reverted) -> Option<(Entry, Problem)> {
    let Entry {
        item,
        original,
        wanted,
        ..
    } = &entry;
    let problem = |reason: String| Problem::of(item, reason);
    let failure = match item.read(root) {
        Ok(None) => None,
        Ok(Some(_)) if item.stays() => None,
        // The file vanishes with its cgroup.
        Ok(Some(_)) if *original == Value::Absent && matches!(item, Item::File { .. }) => None,
        Ok(Some(now)) if now.same(original) => None,
        Ok(Some(now)) if entry.is_ours(&now) => match restore(&entry, root) {
            Ok(()) => {
                result.restored += 1;
                return None;
            }
            Err(RestoreError::Strayed(reason)) => {
                result.strayed.push(problem(reason));
                return None;
            }
            Err(RestoreError::Failed(reason)) => Some(reason),
        },
        Ok(Some(now)) => {
            let problem = problem(format!(
                "it is `{now}` now, not the `{wanted}` of latlab; it was `{original}` before"
            ));
            if item.is_free() {
                result.strayed.push(problem);
            } else {
                result.foreign.push(problem);
            }
            return None;
        }
        Err(error) => Some(format!("it cannot be read: {error}")),
    };
    match failure {
        None => {
            result.nothing_to_do += 1;
            None
        }
        Some(reason) => {
            let problem = problem(reason);
            Some((entry, problem))
        }
    }
}

/// Why an item does not have its original value again.
enum RestoreError {
    /// A thread of another program moved on.
    Strayed(String),
    Failed(String),
}

fn restore(entry: &Entry, root: &Root) -> Result<(), RestoreError> {
    let Entry { item, original, .. } = entry;
    let written = item.write(root, original);
    match (item.read(root), written) {
        // The item vanished meanwhile.
        (Ok(None), _) => Ok(()),
        (Ok(Some(now)), _) if now.same(original) => Ok(()),
        // Another program has put the thread into a group without the CPUs that it had before. What keeps it in a
        // group of latlab's is told when that group is removed.
        (Ok(Some(now)), Err(error)) if item.is_free() && matches!(item, Item::Task { .. }) => {
            Err(RestoreError::Strayed(format!(
                "`{original}` was not taken: {error}; it is `{now}`"
            )))
        }
        (_, Err(error)) => Err(RestoreError::Failed(format!(
            "`{original}` was not taken: {error}"
        ))),
        (Ok(Some(now)), Ok(())) if item.is_free() => Err(RestoreError::Strayed(format!(
            "`{original}` was written, and it is `{now}` again"
        ))),
        (Ok(Some(now)), Ok(())) => Err(RestoreError::Failed(format!(
            "`{original}` was written, and `{now}` is read back"
        ))),
        (Err(error), Ok(())) => Err(RestoreError::Failed(format!("it cannot be read: {error}"))),
    }
}
