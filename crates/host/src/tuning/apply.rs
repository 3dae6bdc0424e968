//! Turning knobs: everything is checked, then journaled and synced, then written and read back.

use super::division::{self, Division};
use super::items::{ABSENT, Item};
use super::journal::{Entry, Held};
use super::{Change, Error, Root, Wish, plan_one};
use crate::dirs::Dirs;
use serde::Serialize;

/// Sweeps over things that come, go and move while others are turned.
const MAX_SWEEPS: usize = 5;

/// What came of one thing that was to be turned, where it did not come as wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What.
    pub item: String,
    /// What happened.
    pub reason: String,
}

/// What came of one knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnobResult {
    /// Which.
    pub knob: &'static str,
    /// What was wanted of it.
    pub wanted: String,
    /// Why this machine does not have it; nothing was done then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// So many things were turned.
    pub turned: usize,
    /// So many had the value already.
    pub already: usize,
    /// So many vanished meanwhile.
    pub gone: usize,
    /// The kernel keeps these for itself.
    pub fixed: Vec<Problem>,
    /// The kernel did not take these.
    pub refused: Vec<Problem>,
    /// Threads and groups of others that changed again right after they were turned: a remark, no error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strayed: Vec<Problem>,
}

/// What came of it all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// One a knob, in their order.
    pub knobs: Vec<KnobResult>,
    /// Entries of an earlier boot that were forgotten.
    pub forgotten: usize,
    /// What other owners have did not follow the new division of the processors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<Problem>,
}

impl Applied {
    /// Whether all that this machine has was taken.
    pub fn is_good(&self) -> bool {
        self.unsettled.is_empty() && self.knobs.iter().all(|k| k.refused.is_empty())
    }
}

/// Turns what `changes` want, for `owner`. `progress` is told the knob, its number and their count.
///
/// # Errors
/// Before the first change: somebody else wants otherwise, something cannot be written, or the
/// journal cannot be. What single items say is in the result.
pub fn apply(
    owner: &str,
    changes: &[Change],
    dirs: &Dirs,
    root: &Root,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Applied, Error> {
    let mut held = Held::take(dirs, root)?;
    let before = Division::of(&held.journal.owners);
    division::enrol(&mut held.journal, owner, changes)?;
    let after = Division::of(&held.journal.owners);
    let changes = &after.plan(changes, root)?;
    if after != before {
        division::retarget(&mut held.journal, &after, root)?;
    }
    for change in changes {
        check(change, &held, root)?;
    }
    for change in changes {
        if change.knob.moves {
            join(owner, change.knob.name, &mut held);
        }
        note(owner, change.knob.name, &change.wishes, &mut held, root);
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
            turned: 0,
            already: 0,
            gone: 0,
            fixed: Vec::new(),
            refused: Vec::new(),
            strayed: Vec::new(),
        };
        turn_all(&change.wishes, &mut held, root, &mut result);
        if change.knob.moves {
            again(owner, change, &mut held, root, &mut result)?;
        }
        applied.knobs.push(result);
    }
    settle(&mut held, root, &mut applied.unsettled);
    held.forget_idle_owners();
    held.sync()?;
    Ok(applied)
}

/// Gives what is divided otherwise now, and no knob of this owner's has turned, its new value.
fn settle(held: &mut Held, root: &Root, unsettled: &mut Vec<Problem>) {
    for entry in &mut held.journal.entries {
        if entry.earlier.is_some() {
            unsettled.extend(settle_one(entry, root));
        }
    }
}

/// The same for one entry; what kept it from its new value.
pub(super) fn settle_one(entry: &mut Entry, root: &Root) -> Option<Problem> {
    let wish = Wish {
        item: entry.item.clone(),
        current: String::new(),
        wanted: entry.wanted.clone(),
    };
    match turn(&wish, root) {
        Turned::Refused(reason, _) => Some(Problem {
            item: entry.item.to_string(),
            reason,
        }),
        _ => {
            entry.earlier = None;
            None
        }
    }
}

/// Refuses what can be seen to fail.
fn check(change: &Change, held: &Held, root: &Root) -> Result<(), Error> {
    for wish in &change.wishes {
        let knob = || change.knob.name.to_string();
        let entry = held.find(&wish.item).map(|i| &held.journal.entries[i]);
        if let Some(entry) = entry {
            if !entry.item.same(&entry.wanted, &wish.wanted) {
                return Err(Error::Conflict {
                    knob: knob(),
                    item: wish.item.to_string(),
                    first: entry.wanted.clone(),
                    owners: entry.owners.join(", "),
                    second: wish.wanted.clone(),
                });
            }
        }
        // A file of a group that is to be made cannot be tried yet.
        let to_come = matches!(wish.item, Item::File { .. }) && wish.current == ABSENT;
        if wish.holds() || to_come {
            continue;
        }
        match wish.item.writable(root) {
            Err(source) if !wish.item.is_fixed(&source) => {
                return Err(Error::ReadOnly {
                    knob: knob(),
                    item: wish.item.to_string(),
                    source,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// A knob whose items come and go plans only what is not so yet; what is so for another owner must
/// stay so for this one too.
fn join(owner: &str, knob: &str, held: &mut Held) {
    let others = held.journal.entries.iter_mut().filter(|e| e.knob == knob);
    for entry in others.filter(|e| !e.owners.iter().any(|o| o == owner)) {
        entry.owners.push(owner.to_string());
    }
}

/// Enters wishes into the journal.
fn note(owner: &str, knob: &str, wishes: &[Wish], held: &mut Held, root: &Root) {
    for wish in wishes {
        match held.find(&wish.item) {
            Some(index) => {
                let entry = &mut held.journal.entries[index];
                // Somebody changed it since: that is what it returns to.
                let now = wish.item.read(root).ok().flatten();
                if let Some(now) = now {
                    let known = entry.is_ours(&now) || entry.item.same(&entry.original, &now);
                    if !known {
                        entry.original = now;
                    }
                }
                if !entry.owners.iter().any(|o| o == owner) {
                    entry.owners.push(owner.to_string());
                }
            }
            None => held.journal.entries.push(Entry {
                knob: knob.to_string(),
                item: wish.item.clone(),
                original: wish.current.clone(),
                wanted: wish.wanted.clone(),
                earlier: None,
                owners: vec![owner.to_string()],
            }),
        }
    }
}

/// Looks for what came meanwhile, and for what did not come as wanted: groups of others are in the way of
/// a partition for a moment only, and a thread that is not ours may move. Journals and turns all that,
/// until nothing is left or [`MAX_SWEEPS`].
fn again(
    owner: &str,
    change: &Change,
    held: &mut Held,
    root: &Root,
    result: &mut KnobResult,
) -> Result<(), Error> {
    for _ in 0..MAX_SWEEPS {
        let Ok(now) = plan_one(change.knob, &change.wanted, &change.cores, root) else {
            break;
        };
        let fixed = |wish: &Wish| {
            let name = wish.item.to_string();
            result.fixed.iter().any(|p| p.item == name)
        };
        let mut new = now.wishes;
        new.retain(|wish| !wish.holds() && !fixed(wish));
        // What failed before and is not among these has gone, or has its value by now.
        result.refused.clear();
        result.strayed.clear();
        if new.is_empty() {
            break;
        }
        note(owner, change.knob.name, &new, held, root);
        held.sync()?;
        turn_all(&new, held, root, result);
    }
    Ok(())
}

fn turn_all(wishes: &[Wish], held: &mut Held, root: &Root, result: &mut KnobResult) {
    for wish in wishes {
        let problem = |reason: String| Problem {
            item: wish.item.to_string(),
            reason,
        };
        match turn(wish, root) {
            Turned::Now => result.turned += 1,
            Turned::Already => result.already += 1,
            Turned::Gone => {
                result.gone += 1;
                forget(&wish.item, None, held);
            }
            Turned::Fixed(reason, now) => {
                result.fixed.push(problem(reason));
                forget(&wish.item, now.as_deref(), held);
            }
            Turned::Refused(reason, now) => {
                result.refused.push(problem(reason));
                forget(&wish.item, Some(&now), held);
            }
            Turned::Strayed(reason) => {
                result.strayed.push(problem(reason));
                // Where it is now is its own choice, and nothing to undo.
                forget(&wish.item, None, held);
            }
        }
    }
}

/// What still has its original value, or vanished, needs no undo. On the disk the entry may stay until
/// the end: a revert finds nothing to do.
fn forget(item: &Item, now: Option<&str>, held: &mut Held) {
    held.journal.entries.retain(|entry| {
        let untouched = now.is_none_or(|now| item.same(now, &entry.original));
        entry.item != *item || !untouched
    });
}

/// What came of a write, with the value that was found after it.
enum Turned {
    Now,
    Already,
    Gone,
    Fixed(String, Option<String>),
    Refused(String, String),
    Strayed(String),
}

fn turn(wish: &Wish, root: &Root) -> Turned {
    let Wish { item, wanted, .. } = wish;
    if let Ok(Some(now)) = item.read(root) {
        if item.same(&now, wanted) {
            return Turned::Already;
        }
    }
    let written = item.write(root, wanted);
    match (written, item.read(root).ok().flatten()) {
        (Err(error), now) if item.is_fixed(&error) => Turned::Fixed(error.to_string(), now),
        (_, None) => Turned::Gone,
        (Ok(()), Some(now)) if item.same(&now, wanted) => Turned::Now,
        (Ok(()), Some(now)) if item.is_free() => {
            Turned::Strayed(format!("`{wanted}` was written, and it is `{now}` again"))
        }
        (Ok(()), Some(now)) => Turned::Refused(
            format!("`{wanted}` was written, and `{now}` is read back"),
            now,
        ),
        // A thread that the kernel keeps where it is would run on quiet processors: that is told.
        (Err(error), Some(now)) if item.is_free() && !matches!(item, Item::Task { .. }) => {
            Turned::Strayed(format!("`{wanted}` was not taken: {error}; it is `{now}`"))
        }
        (Err(error), Some(now)) => {
            Turned::Refused(format!("`{wanted}` was not taken: {error}"), now)
        }
    }
}
