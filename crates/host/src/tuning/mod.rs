//! The machine's own knobs: read, planned, turned, watched, and put back.
//!
//! ```text
//! profile + cores ─ plan ─► changes ─ apply ─► journal, then the kernel ─ verify ─► drift
//!                                              journal ─ revert ─► as it was
//! ```
//!
//! A **knob** ([`knobs`], one a file) knows what to turn and to what; an **item** ([`items`], one kind a
//! file) is a single thing with a value that is read, written, compared and restored. Journal, undo
//! and reports know items only, so that a new knob needs none of them.
//!
//! **Owners.** A person's `tune apply` is the owner `user`, a lab is `lab NAME`. Several may want an
//! item if they want the same of it; its original returns when the last of them leaves. What another
//! wants otherwise is refused before anything is changed. What only follows from which processors are
//! quiet is no contradiction: those of all owners are (`division`).
//!
//! **Undo.** Only what still has the value that was written is restored. A value that somebody else
//! gave meanwhile is theirs: it is left and reported. What vanished needs no undo. After a reboot
//! there is nothing to restore, since nothing here outlives the kernel that was tuned.

mod apply;
mod division;
pub mod items;
pub mod journal;
pub mod knobs;
mod revert;
mod root;
mod state;

use std::io;
use std::path::{Path, PathBuf};

use latlab_model::profile::{Cores, Profile, Wanted};
use serde::Serialize;

use items::{ABSENT, Item};
use knobs::{Knob, Machine, Why};

pub use apply::{Applied, KnobResult, Problem, apply};
pub use knobs::partition_cpus;
pub use revert::{Reverted, revert};
pub use root::Root;
pub use state::{Drift, Shown, show, verify};

/// The owner of what a person applies.
pub const USER: &str = "user";

/// The owner of what a lab applies.
pub fn lab_owner(lab: &str) -> String {
    format!("lab {lab}")
}

/// Why tuning was refused, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else is at it.
    #[error("somebody else is tuning this machine (waited {waited} s)")]
    Held {
        /// Seconds.
        waited: u64,
    },
    /// A value that the machine cannot have.
    #[error("{message}")]
    Impossible {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// Another owner wants something else of the same thing, or this one did.
    #[error("knob `{knob}`: {item} is `{first}` for {owners}, and `{second}` is wanted of it now")]
    Conflict {
        /// By which knob.
        knob: String,
        /// Of what.
        item: String,
        /// What the owners want.
        first: String,
        /// Who.
        owners: String,
        /// What is wanted now.
        second: String,
    },
    /// The machine does not let it be written.
    #[error("knob `{knob}`: {item} cannot be written: {source}")]
    ReadOnly {
        /// By which knob.
        knob: String,
        /// What.
        item: String,
        /// Why.
        source: io::Error,
    },
    /// A file of latlab's own failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// `read`, `create`, …
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal is not one.
    #[error("{} is not a journal of tuning: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Sys(crate::sys::Error),
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }

    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Error::Held { .. } => "try again when the other latlab is done".into(),
            Error::Impossible { hint, .. } => hint.clone(),
            Error::Conflict { owners, .. } if owners == USER => {
                "run `latlab tune revert` first, or leave this knob out (`--without`)".into()
            }
            Error::Conflict { owners, .. } => {
                format!("want the same, leave this knob out (`--without`), or end {owners} first")
            }
            Error::ReadOnly { source, .. } => match source.raw_os_error() {
                Some(libc::EROFS) => {
                    "it is mounted read-only, as in a container: tune the host itself".into()
                }
                _ => "run as root on the host itself, or leave this knob out (`--without`)".into(),
            },
            Error::Damaged { .. } => {
                "look at it: it holds the values from before; remove it when they are restored"
                    .into()
            }
            Error::Io { .. } | Error::Sys(_) => {
                "nothing else was changed; see that the directory can be written, and try again"
                    .into()
            }
        }
    }
}

/// What is to be turned, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wish {
    /// What.
    pub item: Item,
    /// Its value now.
    pub current: String,
    /// Its value then.
    pub wanted: String,
}

impl Wish {
    /// Whether it has the value already.
    pub fn holds(&self) -> bool {
        self.item.same(&self.current, &self.wanted)
    }
}

/// What one knob would change.
#[derive(Debug, Clone)]
pub struct Change {
    /// The knob: what it does, its evidence, its risk.
    pub knob: &'static Knob,
    /// What the profile wants of it.
    pub wanted: Wanted,
    /// Why this machine does not have it; it has no wishes then.
    pub absent: Option<String>,
    /// What to turn.
    pub wishes: Vec<Wish>,
    cores: Cores,
}

/// What a profile would change on this machine. Nothing is changed.
///
/// # Errors
/// [`Error::Impossible`] for a value that this machine cannot have.
pub fn plan(profile: &Profile, cores: &Cores, root: &Root) -> Result<Vec<Change>, Error> {
    let impossible = |(message, hint)| Error::Impossible { message, hint };
    profile.check().map_err(impossible)?;
    let mut changes = Vec::new();
    for knob in knobs::ALL {
        if let Some(wanted) = profile.knobs.get(knob.name) {
            changes.push(plan_one(knob, wanted, cores, root)?);
        }
    }
    Ok(changes)
}

fn plan_one(
    knob: &'static Knob,
    wanted: &Wanted,
    cores: &Cores,
    root: &Root,
) -> Result<Change, Error> {
    let machine = Machine { root, cores };
    let (wishes, absent) = match knob.wishes(&machine, wanted) {
        Ok(wishes) => look(wishes, root),
        Err(Why::Absent(reason)) => (Vec::new(), Some(reason)),
        Err(Why::Impossible(message, hint)) => {
            let message = format!("knob `{}`: {message}", knob.name);
            return Err(Error::Impossible { message, hint });
        }
    };
    Ok(Change {
        knob,
        wanted: wanted.clone(),
        absent,
        wishes,
        cores: cores.clone(),
    })
}

/// Reads what is to be turned. What vanished meanwhile, or cannot be read, cannot be turned either;
/// when that is all of it, the reason.
fn look(wishes: Vec<(Item, String)>, root: &Root) -> (Vec<Wish>, Option<String>) {
    let mut found: Vec<Wish> = Vec::new();
    let mut reason = None;
    for (item, wanted) in wishes {
        // The files of a group that is to be made are not there yet.
        let to_come = |path: &Path| {
            let made = |wish: &Wish| matches!(&wish.item, Item::Group { path: group } if path.starts_with(group));
            found.iter().any(made)
        };
        let current = match (item.read(root), &item) {
            // Shown in every network namespace, and turned in the first only.
            (Ok(_), Item::File { path, .. })
                if path.starts_with("/proc/sys/net") && items::file::only_read(root, path) =>
            {
                reason.get_or_insert(format!("{item} is the first network namespace's to turn"));
                continue;
            }
            (Ok(Some(value)), _) => value,
            (Ok(None), Item::File { path, .. }) if to_come(path) => ABSENT.to_string(),
            (Ok(None), _) => {
                reason.get_or_insert(format!("{item} means nothing on this machine"));
                continue;
            }
            (Err(error), _) => {
                reason.get_or_insert(format!("{item} cannot be read: {error}"));
                continue;
            }
        };
        found.push(Wish {
            item,
            current,
            wanted,
        });
    }
    match found.is_empty() {
        true => (found, reason),
        false => (found, None),
    }
}

#[cfg(test)]
mod tests;
