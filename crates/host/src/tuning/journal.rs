//! What was tuned, for whom, and what was there before: on the disk, synced, before the first write.
//!
//! One file for the machine, since what is tuned belongs to the machine and not to a lab. Every
//! entry is one [`Item`] with its original value, the value that is wanted and its owners. The value
//! in force is never kept: it is read, so that an entry means the same whether the write that it
//! announces was done, was not done, or was undone by somebody else.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Error;
use super::division::Owner;
use super::items::Item;
use super::root::Root;
use crate::dirs::Dirs;
use crate::sys::file::{Lock, sync_directory, write_atomically};

/// How long somebody else who tunes is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name and version of the journal's format.
const FORMAT: &str = "latlab.tuning/1";

/// One thing that is tuned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// By which knob.
    pub knob: String,
    /// What.
    pub item: Item,
    /// Its value before.
    pub original: String,
    /// Its value since.
    pub wanted: String,
    /// The value before that, while it is being replaced because the processors are divided otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
    /// For whom: `user`, `lab NAME`.
    pub owners: Vec<String>,
}

/// All that is tuned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    format: String,
    boot_id: String,
    /// Who tunes, and what they want.
    #[serde(default)]
    pub owners: Vec<Owner>,
    /// In the order in which they were applied.
    pub entries: Vec<Entry>,
}

/// The journal and the right to change it and what it lists.
#[derive(Debug)]
pub struct Held {
    /// What it says.
    pub journal: Journal,
    /// So many entries were of an earlier boot: the kernel has forgotten them, and so has this.
    pub forgotten: usize,
    path: PathBuf,
    _lock: Lock,
}

/// Reads the journal without the right to change it.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn read(dirs: &Dirs, root: &Root) -> Result<Journal, Error> {
    Ok(load(dirs, root)?.0)
}

fn load(dirs: &Dirs, root: &Root) -> Result<(Journal, usize), Error> {
    let path = dirs.tuning();
    let boot_id = root.read("/proc/sys/kernel/random/boot_id");
    let boot_id = boot_id.unwrap_or_default().trim().to_string();
    let empty = |boot_id| Journal {
        format: FORMAT.into(),
        boot_id,
        owners: Vec::new(),
        entries: Vec::new(),
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((empty(boot_id), 0)),
        Err(source) => return Err(Error::io("read", &path)(source)),
    };
    let damaged = |reason: String| Error::Damaged {
        path: path.clone(),
        reason,
    };
    let journal: Journal = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    if journal.format != FORMAT {
        return Err(damaged(format!("its format is `{}`", journal.format)));
    }
    match journal.boot_id == boot_id {
        true => Ok((journal, 0)),
        // Everything that is tuned here lives in the running kernel only.
        false => Ok((empty(boot_id), journal.entries.len())),
    }
}

impl Entry {
    /// Whether `now` is a value that came of latlab, so that it is latlab's to undo.
    pub fn is_ours(&self, now: &str) -> bool {
        let wanted = [Some(&self.wanted), self.earlier.as_ref()];
        let mut wanted = wanted.into_iter().flatten();
        wanted.any(|wanted| self.item.is_ours(&self.original, wanted, now))
    }
}

impl Held {
    /// Takes the lock and reads the journal.
    ///
    /// # Errors
    /// When somebody else tunes for long, or the journal cannot be read.
    pub fn take(dirs: &Dirs, root: &Root) -> Result<Held, Error> {
        let path = dirs.tuning();
        let directory = path.parent().unwrap_or(&path).to_path_buf();
        fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        let lock = Lock::take(&dirs.tuning_lock(), PATIENCE).map_err(Error::Sys)?;
        let lock = lock.ok_or(Error::Held {
            waited: PATIENCE.as_secs(),
        })?;
        let (journal, forgotten) = load(dirs, root)?;
        Ok(Held {
            journal,
            forgotten,
            path,
            _lock: lock,
        })
    }

    /// Writes the journal; when this returns, it is on the disk. An empty one is removed.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn sync(&self) -> Result<(), Error> {
        if !self.journal.entries.is_empty() || !self.journal.owners.is_empty() {
            let text = serde_json::to_vec(&self.journal).map_err(|e| Error::Damaged {
                path: self.path.clone(),
                reason: e.to_string(),
            })?;
            return write_atomically(&self.path, &text, 0o644).map_err(Error::Sys);
        }
        let removed = match fs::remove_file(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        let directory = self.path.parent().unwrap_or(&self.path);
        removed
            .and_then(|()| sync_directory(directory))
            .map_err(Error::io("remove", &self.path))
    }

    /// An owner for whom nothing is tuned has no say in how the processors are divided.
    pub fn forget_idle_owners(&mut self) {
        let Journal {
            owners, entries, ..
        } = &mut self.journal;
        owners.retain(|owner| entries.iter().any(|e| e.owners.contains(&owner.name)));
    }

    /// Where an item's entry is.
    pub fn find(&self, item: &Item) -> Option<usize> {
        self.journal.entries.iter().position(|e| e.item == *item)
    }
}
