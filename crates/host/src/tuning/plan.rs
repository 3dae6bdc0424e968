//! The changes that a profile would make on this machine.

use std::path::Path;

use latlab_model::profile::{Cores, Profile, Wanted};
use serde::Serialize;

use super::error::Error;
use super::items::{Item, Value, only_read};
use super::knobs::{self, Knob, KnobError, Machine, Targets};
use super::root::Root;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    pub item: Item,
    pub current: Value,
    pub wanted: Value,
}

impl Target {
    pub fn holds(&self) -> bool {
        self.current.same(&self.wanted)
    }
}

#[derive(Debug, Clone)]
pub struct Change {
    pub knob: &'static Knob,
    pub wanted: Wanted,
    /// Why this machine does not have the knob; it has no targets then.
    pub absent: Option<String>,
    pub targets: Vec<Target>,
    pub(super) cores: Cores,
}

/// Plans a profile on this machine. Nothing is changed. Errors: [`Error::Impossible`] for a value that this machine
/// cannot have.
pub fn plan(profile: &Profile, cores: &Cores, root: &Root) -> Result<Vec<Change>, Error> {
    profile.check().map_err(Error::impossible)?;
    let mut changes = Vec::new();
    for knob in knobs::ALL {
        if let Some(wanted) = profile.knobs.get(knob.name) {
            changes.push(plan_one(knob, wanted, cores, root)?);
        }
    }
    Ok(changes)
}

pub(super) fn plan_one(
    knob: &'static Knob,
    wanted: &Wanted,
    cores: &Cores,
    root: &Root,
) -> Result<Change, Error> {
    let machine = Machine { root, cores };
    let (targets, absent) = match knob.targets(&machine, wanted) {
        Ok(targets) => read_targets(targets, root),
        Err(KnobError::Absent(reason)) => (Vec::new(), Some(reason)),
        Err(KnobError::Impossible(message, hint)) => {
            let message = format!("knob `{}`: {message}", knob.name);
            return Err(Error::Impossible { message, hint });
        }
    };
    Ok(Change {
        knob,
        wanted: wanted.clone(),
        absent,
        targets,
        cores: cores.clone(),
    })
}

/// Reads the current values. An item that vanished or cannot be read is left out; if that leaves none, the
/// reason is returned.
fn read_targets(targets: Targets, root: &Root) -> (Vec<Target>, Option<String>) {
    let mut found: Vec<Target> = Vec::new();
    let mut reason = None;
    for (item, wanted) in targets {
        // The files of a cgroup that is still to be created.
        let to_come = |path: &Path| {
            let created = |target: &Target| matches!(&target.item, Item::Group { path: group } if path.starts_with(group));
            found.iter().any(created)
        };
        let current = match (item.read(root), &item) {
            // Every network namespace shows these files; only the first may write them.
            (Ok(_), Item::File { path, .. })
                if path.starts_with("/proc/sys/net") && only_read(root, path) =>
            {
                Err(format!(
                    "{item} can only be set in the first network namespace"
                ))
            }
            (Ok(Some(value)), _) => Ok(value),
            (Ok(None), Item::File { path, .. }) if to_come(path) => Ok(Value::Absent),
            (Ok(None), _) => Err(format!("{item} means nothing on this machine")),
            (Err(error), _) => Err(format!("{item} cannot be read: {error}")),
        };
        match current {
            Ok(current) => found.push(Target {
                item,
                current,
                wanted,
            }),
            Err(why) => {
                reason.get_or_insert(why);
            }
        }
    }
    let reason = reason.filter(|_| found.is_empty());
    (found, reason)
}
