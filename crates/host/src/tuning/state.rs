//! What is in force, for whom, and where it drifted from what was applied.

use std::collections::BTreeMap;

use latlab_model::profile::Cores;
use serde::Serialize;

use super::items::Item;
use super::items::task::Attribute;
use super::journal::{self, Entry};
use super::knobs::{self, Machine};
use super::{Error, Root};
use crate::dirs::Dirs;

/// Something that does not have the value that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// By which knob.
    pub knob: String,
    /// What.
    pub item: String,
    /// What was applied.
    pub wanted: String,
    /// What it is now.
    pub found: String,
    /// For whom it was applied.
    pub owners: Vec<String>,
    /// It is a thread's or a group's of others, who may change it at any time: a remark.
    pub strayed: bool,
}

/// One knob as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Which.
    pub knob: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What is in force, each value with the number of things that have it.
    pub in_force: Vec<(String, usize)>,
    /// Why this machine does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Who wants what of it, through latlab.
    pub wanted: Vec<(String, Vec<String>)>,
    /// Where it is not so.
    pub drift: Vec<Drift>,
}

/// All knobs as they are; nothing is changed, and no right is needed.
///
/// # Errors
/// When the journal cannot be read.
pub fn show(cores: &Cores, dirs: &Dirs, root: &Root) -> Result<Vec<Shown>, Error> {
    let journal = journal::read(dirs, root)?;
    let machine = Machine { root, cores };
    let shown = knobs::ALL.iter().map(|knob| {
        let mine = || journal.entries.iter().filter(|e| e.knob == knob.name);
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in mine() {
            let owners = wanted.entry(entry.wanted.clone()).or_default();
            owners.extend(entry.owners.iter().cloned());
            owners.sort();
            owners.dedup();
        }
        let (items, absent) = match (knob.items)(&machine) {
            Ok(items) => (items, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let (in_force, unread) = values(&items, root);
        Shown {
            knob: knob.name,
            about: knob.about,
            absent: absent.or(unread.filter(|_| in_force.is_empty())),
            in_force,
            wanted: wanted.into_iter().collect(),
            drift: mine().filter_map(|e| drift(e, root)).collect(),
        }
    });
    Ok(shown.collect())
}

/// The different values of items, the commonest first; why one could not be read.
fn values(items: &[Item], root: &Root) -> (Vec<(String, usize)>, Option<String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut unread = None;
    for item in items {
        match item.read(root) {
            Ok(Some(value)) => *counts.entry(value).or_default() += 1,
            Ok(None) => unread = Some(format!("{item} means nothing on this machine")),
            Err(error) => unread = Some(format!("{item} cannot be read: {error}")),
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    (counts, unread)
}

/// Everything of the journal that is not as applied; of one owner, or of all.
///
/// # Errors
/// When the journal cannot be read.
pub fn verify(owner: Option<&str>, dirs: &Dirs, root: &Root) -> Result<Vec<Drift>, Error> {
    let journal = journal::read(dirs, root)?;
    let mine = |entry: &&Entry| owner.is_none_or(|o| entry.owners.iter().any(|e| e == o));
    let entries = journal.entries.iter().filter(mine);
    Ok(entries.filter_map(|e| drift(e, root)).collect())
}

/// What vanished is not drift: a thread that ended, an interface that was removed. A daemon that was stopped
/// and started anew is.
fn drift(entry: &Entry, root: &Root) -> Option<Drift> {
    let found = match entry.item.read(root) {
        Ok(None) => match &entry.item {
            Item::Task { task, attribute } if *attribute == Attribute::Activity => {
                let task = task.successor(root)?;
                let words = format!("as {task}");
                let attribute = Attribute::Activity;
                let activity = Item::Task { task, attribute }.read(root).ok()??;
                if activity == entry.wanted {
                    return None;
                }
                format!("{activity}, {words}")
            }
            // A file of a group that latlab made goes only with its controller.
            Item::File { .. } if entry.original == super::ABSENT => super::ABSENT.to_string(),
            Item::File { .. } | Item::Task { .. } | Item::Nic { .. } => return None,
            _ => super::ABSENT.to_string(),
        },
        Ok(Some(now)) if entry.item.suffices(&entry.wanted, &now) => return None,
        Ok(Some(now)) => now,
        Err(error) => error.to_string(),
    };
    Some(Drift {
        knob: entry.knob.clone(),
        item: entry.item.to_string(),
        wanted: entry.wanted.clone(),
        found,
        owners: entry.owners.clone(),
        strayed: entry.item.is_free(),
    })
}
