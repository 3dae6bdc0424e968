//! The values in force, their owners, and drift from the applied values.

use std::collections::BTreeMap;

use latlab_model::profile::Cores;
use serde::Serialize;

use super::error::Error;
use super::items::{Attribute, Item, Value};
use super::journal::{self, Entry};
use super::knobs::{self, Machine};
use super::root::Root;
use crate::dirs::Dirs;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub knob: String,
    pub item: String,
    pub wanted: String,
    pub found: String,
    pub owners: Vec<String>,
    /// A thread or cgroup of another program, which may change it at any time: a remark.
    pub strayed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub knob: &'static str,
    pub about: &'static str,
    /// The values in force, each with its number of items.
    pub in_force: Vec<(String, usize)>,
    /// Why this machine does not have the knob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The applied values and their owners.
    pub wanted: Vec<(String, Vec<String>)>,
    pub drift: Vec<Drift>,
}

/// The state of all knobs. Nothing is changed, and no privilege is needed.
pub fn show(cores: &Cores, dirs: &Dirs, root: &Root) -> Result<Vec<Shown>, Error> {
    let journal = journal::read(dirs, root)?;
    let machine = Machine { root, cores };
    let shown = knobs::ALL.iter().map(|knob| {
        let mine = || journal.entries.iter().filter(|e| e.knob == knob.name);
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in mine() {
            let owners = wanted.entry(entry.wanted.to_string()).or_default();
            owners.extend(entry.owners.iter().cloned());
            owners.sort();
            owners.dedup();
        }
        let (items, absent) = match knob.items.find(&machine) {
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

/// The distinct values of items, the most frequent first; why one could not be read.
fn values(items: &[Item], root: &Root) -> (Vec<(String, usize)>, Option<String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut unread = None;
    for item in items {
        match item.read(root) {
            Ok(Some(value)) => *counts.entry(value.to_string()).or_default() += 1,
            Ok(None) => unread = Some(format!("{item} means nothing on this machine")),
            Err(error) => unread = Some(format!("{item} cannot be read: {error}")),
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    (counts, unread)
}

/// The drift of all owners, or of one.
pub fn verify(owner: Option<&str>, dirs: &Dirs, root: &Root) -> Result<Vec<Drift>, Error> {
    let journal = journal::read(dirs, root)?;
    let mine = |entry: &&Entry| owner.is_none_or(|o| entry.owners.iter().any(|e| e == o));
    let entries = journal.entries.iter().filter(mine);
    Ok(entries.filter_map(|e| drift(e, root)).collect())
}

/// Vanished items are no drift: a thread that ended, an interface that was removed. A daemon that was stopped
/// and started anew is.
fn drift(entry: &Entry, root: &Root) -> Option<Drift> {
    let found = match entry.item.read(root) {
        Ok(None) => match &entry.item {
            Item::Task { task, attribute } if *attribute == Attribute::Activity => {
                let task = task.successor(root)?;
                let item = Item::task(task.clone(), Attribute::Activity);
                let activity = item.read(root).ok()??;
                if activity == entry.wanted {
                    return None;
                }
                format!("{activity}, as {task}")
            }
            // A file of a cgroup that latlab created vanishes only with its controller.
            Item::File { .. } if entry.original == Value::Absent => Value::Absent.to_string(),
            Item::File { .. } | Item::Task { .. } | Item::Nic { .. } => return None,
            _ => Value::Absent.to_string(),
        },
        Ok(Some(now)) if entry.item.suffices(&entry.wanted, &now) => return None,
        Ok(Some(now)) => now.to_string(),
        Err(error) => error.to_string(),
    };
    Some(Drift {
        knob: entry.knob.clone(),
        item: entry.item.to_string(),
        wanted: entry.wanted.to_string(),
        found,
        owners: entry.owners.clone(),
        strayed: entry.item.is_free(),
    })
}
