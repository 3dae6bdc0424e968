//! Putting knobs back: needs the journal only, in any state of it, any number of times.

use serde::Serialize;

use super::apply::settle_one;
use super::division::{self, Division};
use super::items::{ABSENT, Item};
use super::journal::{Entry, Held};
use super::{Error, Problem, Root};
use crate::dirs::Dirs;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// So many things have their original value again.
    pub restored: usize,
    /// So many had it still, or vanished.
    pub nothing_to_do: usize,
    /// So many stay as they are for other owners.
    pub kept: usize,
    /// Somebody else changed these meanwhile; they were left alone and are not ours any more.
    pub foreign: Vec<Problem>,
    /// Threads and groups of others that moved or changed meanwhile, as they are free to: a remark, not an
    /// error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strayed: Vec<Problem>,
    /// These could not be restored; they stay in the journal, so that it can be tried again.
    pub failed: Vec<Problem>,
    /// Entries of an earlier boot that were forgotten: that kernel is gone, with all that was tuned.
    pub forgotten: usize,
}

impl Reverted {
    /// Whether everything is as it was before.
    pub fn is_good(&self) -> bool {
        self.foreign.is_empty() && self.failed.is_empty()
    }
}

/// Ends what `owner` wants; the last owner of an item gives its original back.
///
/// # Errors
/// When the journal cannot be read or written; what single items say is in the result.
pub fn revert(
    owner: &str,
    dirs: &Dirs,
    root: &Root,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Reverted, Error> {
    let mut held = Held::take(dirs, root)?;
    let mut result = Reverted {
        forgotten: held.forgotten,
        ..Reverted::default()
    };
    divide_among_others(owner, &mut held, root, &mut result)?;
    let entries = std::mem::take(&mut held.journal.entries);
    let count = entries.len();
    let mut left = Vec::new();
    for (index, mut entry) in entries.into_iter().rev().enumerate() {
        progress(&entry.knob, index, count);
        // One that nobody wants any more was left by an earlier revert that did not come to its end.
        if entry.owners.iter().all(|o| o == owner) {
            entry.owners.clear();
            left.extend(undo(entry, owner, root, &mut result));
        } else {
            if entry.earlier.is_some() {
                result.failed.extend(settle_one(&mut entry, root));
            }
            left.push(entry);
        }
    }
    left.reverse();
    held.journal.entries = left;
    held.sync()?;
    Ok(result)
}

/// Takes the owner out of what others want too, and gives that its values without the owner's processors:
/// on the disk, before anything is written to the machine.
fn divide_among_others(
    owner: &str,
    held: &mut Held,
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
    let before = Division::of(&journal.owners);
    journal.owners.retain(|known| known.name != owner);
    let after = Division::of(&journal.owners);
    if after == before || journal.owners.is_empty() {
        return Ok(());
    }
    if let Err(error) = division::retarget(journal, &after, root) {
        // What is the owner's alone can be given back all the same.
        result.failed.push(Problem {
            item: "what other owners want".into(),
            reason: error.to_string(),
        });
    }
    held.sync()
}

/// Restores one item; the entry when it must be tried again.
fn undo(mut entry: Entry, owner: &str, root: &Root, result: &mut Reverted) -> Option<Entry> {
    let Entry {
        item,
        original,
        wanted,
        ..
    } = &entry;
    let problem = |reason: String| Problem {
        item: item.to_string(),
        reason,
    };
    let failure = match item.read(root) {
        Ok(None) => None,
        Ok(Some(_)) if item.stays() => None,
        // Goes with the group that it is in.
        Ok(Some(_)) if original == ABSENT && matches!(item, Item::File { .. }) => None,
        Ok(Some(now)) if item.same(&now, original) => None,
        Ok(Some(now)) if entry.is_ours(&now) => match restore(&entry, root) {
            Ok(()) => {
                result.restored += 1;
                return None;
            }
            Err(Failed::Strayed(now)) => {
                let reason = format!("`{original}` was written, and it is `{now}` again");
                result.strayed.push(problem(reason));
                return None;
            }
            Err(Failed::Because(reason)) => Some(reason),
        },
        Ok(Some(now)) => {
            let problem = problem(format!(
                "it is `{now}` now, not the `{wanted}` of latlab; it was `{original}` before"
            ));
            match item.is_free() {
                true => result.strayed.push(problem),
                false => result.foreign.push(problem),
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
            result.failed.push(problem(reason));
            entry.owners.push(owner.to_string());
            Some(entry)
        }
    }
}

/// Why an item does not have its original value again.
enum Failed {
    /// A thread of others moved on, to this value.
    Strayed(String),
    Because(String),
}

fn restore(entry: &Entry, root: &Root) -> Result<(), Failed> {
    let Entry { item, original, .. } = entry;
    let written = item.write(root, original);
    match (item.read(root), written) {
        // It vanished under our hands.
        (Ok(None), _) => Ok(()),
        (Ok(Some(now)), _) if item.same(&now, original) => Ok(()),
        (_, Err(error)) => Err(Failed::Because(format!(
            "`{original}` was not taken: {error}"
        ))),
        (Ok(Some(now)), Ok(())) if item.is_free() => Err(Failed::Strayed(now)),
        (Ok(Some(now)), Ok(())) => Err(Failed::Because(format!(
            "`{original}` was written, and `{now}` is read back"
        ))),
        (Err(error), Ok(())) => Err(Failed::Because(format!("it cannot be read: {error}"))),
    }
}
