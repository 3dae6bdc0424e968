//! The tuned items, their owners and original values: on the disk, synced, before the first write.
//!
//! One file per machine, since a knob belongs to the machine and not to a lab. Every entry is one [`Item`] with
//! its original value, the wanted value and its owners. The value in force is not stored but read, so an entry
//! means the same whether its write was done, was not done, or was undone by another program.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::items::{Item, Value};
use super::owner::Owner;
use super::root::Root;
use crate::dirs::Dirs;
use crate::sys::file::{Lock, if_there, sync_directory, write_atomically};

/// For the lock of another latlab that is tuning.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Name and version of the journal's format.
const FORMAT: &str = "latlab.tuning/1";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenEntry")]
pub struct Entry {
    pub knob: String,
    pub item: Item,
    pub original: Value,
    pub wanted: Value,
    /// The previously wanted value, while a new CPU split replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Value>,
    /// The value that the kernel or a driver made of a wanted one, where it took another: also latlab's, to be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounded: Option<Value>,
    /// `user`, `lab NAME`.
    pub owners: Vec<String>,
}

/// An entry whose values are still text: their meaning depends on the item.
#[derive(Deserialize)]
struct WrittenEntry {
    knob: String,
    item: Item,
    original: String,
    wanted: String,
    #[serde(default)]
    earlier: Option<String>,
    #[serde(default)]
    rounded: Option<String>,
    owners: Vec<String>,
}

impl From<WrittenEntry> for Entry {
    fn from(written: WrittenEntry) -> Entry {
        let item = written.item;
        Entry {
            knob: written.knob,
            original: item.parse(&written.original),
            wanted: item.parse(&written.wanted),
            earlier: written.earlier.map(|text| item.parse(&text)),
            rounded: written.rounded.map(|text| item.parse(&text)),
            owners: written.owners,
            item,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    format: String,
    boot_id: String,
    #[serde(default)]
    pub owners: Vec<Owner>,
    /// In the order of their application.
    pub entries: Vec<Entry>,
}

/// The journal under the lock that allows changes to it and to the items that it lists.
#[derive(Debug)]
pub struct LockedJournal {
    pub journal: Journal,
    /// Entries of an earlier boot, dropped because that kernel is gone.
    pub forgotten: usize,
    path: PathBuf,
    _lock: Lock,
}

/// Reads the journal without the lock.
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
    let text = if_there(fs::read_to_string(&path)).map_err(Error::io("read", &path))?;
    let Some(text) = text else {
        return Ok((empty(boot_id), 0));
    };
    let damaged = |reason: String| Error::Damaged {
        path: path.clone(),
        reason,
    };
    let journal: Journal = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    if journal.format != FORMAT {
        return Err(damaged(format!("its format is `{}`", journal.format)));
    }
    if journal.boot_id == boot_id {
        return Ok((journal, 0));
    }
    // Every tuned value lives in the running kernel only.
    Ok((empty(boot_id), journal.entries.len()))
}

impl Entry {
    /// Whether `now` comes from latlab, which must undo it then.
    pub fn is_ours(&self, now: &Value) -> bool {
        let others = [&self.earlier, &self.rounded].into_iter().flatten();
        let mut wanted = others.chain([&self.wanted]);
        wanted.any(|wanted| self.item.is_ours(&self.original, wanted, now))
    }
}

impl LockedJournal {
    /// Takes the lock and reads the journal. Errors: another latlab holds the lock for `TIMEOUT`, or the journal
    /// cannot be read.
    pub fn take(dirs: &Dirs, root: &Root) -> Result<LockedJournal, Error> {
        let path = dirs.tuning();
        let directory = path.parent().unwrap_or(&path).to_path_buf();
        fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        let lock = Lock::take(&dirs.tuning_lock(), TIMEOUT).map_err(Error::Sys)?;
        let lock = lock.ok_or(Error::Locked {
            waited: TIMEOUT.as_secs(),
        })?;
        let (journal, forgotten) = load(dirs, root)?;
        Ok(LockedJournal {
            journal,
            forgotten,
            path,
            _lock: lock,
        })
    }

    /// Writes the journal to the disk and syncs it. An empty one is removed.
    pub fn sync(&self) -> Result<(), Error> {
        if !self.journal.entries.is_empty() || !self.journal.owners.is_empty() {
            let text = serde_json::to_vec(&self.journal).map_err(|e| Error::Damaged {
                path: self.path.clone(),
                reason: e.to_string(),
            })?;
            return write_atomically(&self.path, &text, 0o644).map_err(Error::Sys);
        }
        let directory = self.path.parent().unwrap_or(&self.path);
        if_there(fs::remove_file(&self.path))
            .and_then(|_| sync_directory(directory))
            .map_err(Error::io("remove", &self.path))
    }

    /// Drops owners without entries: they have no part in the CPU split.
    pub fn forget_idle_owners(&mut self) {
        let Journal {
            owners, entries, ..
        } = &mut self.journal;
        owners.retain(|owner| entries.iter().any(|e| e.owners.contains(&owner.name)));
    }

    pub fn find(&self, item: &Item) -> Option<usize> {
        self.journal.entries.iter().position(|e| e.item == *item)
    }
}
