//! Undo first: before anything is made for a lab, how to unmake it is on disk.
//!
//! A journal is written once, whole, before the first change, because the plan already says what
//! will be made: one `fsync` a deployment, not one an object. It claims the lab's name too, since
//! its directory can be made only once. Removing needs nothing but the journal, works in any order
//! of accidents (SIGKILL at any moment, a reboot), collects errors instead of stopping, and finds
//! nothing to do the second time.
//!
//! Nothing is removed on its name alone. Processes are known by a label in their environment,
//! interfaces by the kernel's alias, everything else by lying below latlab's own directories.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dirs::Dirs;

/// Environment variable that carries the lab's identifier in every process started for it.
pub const LABEL: &str = "LATLAB_LAB";

/// Why a journal could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody deployed a lab of that name already.
    #[error("lab `{0}` is already deployed")]
    Taken(String),
    /// A file operation failed.
    #[error("{action} {}", path.display())]
    Io {
        /// `write`, `read`, …
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a journal.
    #[error("{} is damaged at line {line}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`Header::FORMAT`].
    pub format: String,
    /// Name of the lab.
    pub lab: String,
    /// Identifier of this deployment: the owner's label.
    pub id: String,
    /// Boot of the host in which it was written.
    pub boot_id: String,
}

impl Header {
    /// Name and version of the journal's format.
    pub const FORMAT: &'static str = "latlab.journal/1";
}

/// How one thing is unmade. Each is idempotent and checks that the thing is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// End every process whose environment carries the label.
    Processes,
    /// End what is left in these control groups and remove them.
    Cgroup {
        /// One directory a hierarchy.
        dirs: Vec<PathBuf>,
    },
    /// Delete an interface of the root namespace if its alias is ours.
    Interface {
        /// Its name.
        name: String,
    },
    /// Unmount everything below a directory of ours.
    Mounts {
        /// The directory.
        below: PathBuf,
    },
    /// Remove a directory of ours with all it holds; refused while something is mounted below it.
    Directory {
        /// The directory.
        path: PathBuf,
    },
}

/// A journal that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Its first line.
    pub header: Header,
    /// How to unmake what was made, in the order in which to do it.
    pub undo: Vec<Undo>,
}

impl Journal {
    /// Claims the lab's name and writes the journal; when this returns, it is on the disk.
    ///
    /// # Errors
    /// [`Error::Taken`] when the name is claimed already.
    pub fn write(dirs: &Dirs, header: Header, undo: Vec<Undo>) -> Result<Journal, Error> {
        let dir = dirs.lab(&header.lab);
        let at = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io {
                action,
                path,
                source,
            }
        };
        fs::create_dir_all(dirs.labs()).map_err(at("create", &dirs.labs()))?;
        fs::create_dir(&dir).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::Taken(header.lab.clone()),
            _ => at("create", &dir)(e),
        })?;
        let journal = Journal { header, undo };
        let path = dirs.journal(&journal.header.lab);
        // Written under another name first: a journal is whole or absent, and absent means that
        // nothing was made.
        let new = path.with_extension("new");
        let text = journal.to_text();
        File::create(&new)
            .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
            .map_err(at("write", &new))?;
        fs::rename(&new, &path).map_err(at("rename", &new))?;
        File::open(&dir)
            .and_then(|d| d.sync_all())
            .map_err(at("sync", &dir))?;
        File::open(dirs.labs())
            .and_then(|d| d.sync_all())
            .map_err(at("sync", &dirs.labs()))?;
        Ok(journal)
    }

    fn to_text(&self) -> String {
        let undo: String = self.undo.iter().map(line).collect();
        line(&self.header) + &undo
    }

    /// Reads a lab's journal; `None` when it has none, which means that nothing was made.
    ///
    /// # Errors
    /// When the file cannot be read or is not a journal.
    pub fn read(dirs: &Dirs, lab: &str) -> Result<Option<Journal>, Error> {
        let path = dirs.journal(lab);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(Error::Io {
                    action: "read",
                    path,
                    source,
                });
            }
        };
        Journal::parse(&text)
            .map(Some)
            .map_err(|(line, source)| Error::Damaged { path, line, source })
    }

    fn parse(text: &str) -> Result<Journal, (usize, serde_json::Error)> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, l)| l);
        let header = serde_json::from_str(first).map_err(|e| (1, e))?;
        let undo = lines
            .map(|(i, l)| serde_json::from_str(l).map_err(|e| (i + 1, e)))
            .collect::<Result<_, _>>()?;
        Ok(Journal { header, undo })
    }

    /// Forgets the lab: the journal goes last, when all it lists is gone.
    ///
    /// # Errors
    /// When the directory cannot be removed.
    pub fn forget(dirs: &Dirs, lab: &str) -> Result<(), Error> {
        let dir = dirs.lab(lab);
        match fs::remove_dir_all(&dir) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::Io {
                action: "remove",
                path: dir,
                source,
            }),
        }
    }
}

fn line<T: Serialize>(value: &T) -> String {
    // Plain structs with string keys always serialise.
    serde_json::to_string(value).expect("journal lines are plain data") + "\n"
}

/// The labs that have a directory, sorted by name.
///
/// # Errors
/// When the directory exists but cannot be read.
pub fn labs(dirs: &Dirs) -> Result<Vec<String>, Error> {
    let path = dirs.labs();
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(Error::Io {
                action: "read",
                path,
                source,
            });
        }
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> (Dirs, PathBuf) {
        let root = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
        fs::remove_dir_all(&root).ok();
        (Dirs::below(&root), root)
    }

    fn header(lab: &str) -> Header {
        let text = |s: &str| s.to_string();
        Header {
            format: text(Header::FORMAT),
            lab: text(lab),
            id: text("x1"),
            boot_id: text("b"),
        }
    }

    #[test]
    fn a_name_is_claimed_once_and_free_again_after_forgetting() {
        let (dirs, root) = scratch("claim");
        let undo = vec![
            Undo::Processes,
            Undo::Directory {
                path: root.join("run/a"),
            },
        ];
        let written = Journal::write(&dirs, header("a"), undo).unwrap();
        assert!(matches!(
            Journal::write(&dirs, header("a"), vec![]),
            Err(Error::Taken(_))
        ));
        assert_eq!(Journal::read(&dirs, "a").unwrap(), Some(written));
        assert_eq!(labs(&dirs).unwrap(), ["a"]);
        Journal::forget(&dirs, "a").unwrap();
        Journal::forget(&dirs, "a").unwrap();
        assert_eq!(Journal::read(&dirs, "a").unwrap(), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_damaged_journal_is_named_with_its_line() {
        let (dirs, root) = scratch("damaged");
        Journal::write(&dirs, header("a"), vec![Undo::Processes]).unwrap();
        let mut text = fs::read_to_string(dirs.journal("a")).unwrap();
        text.push_str("{\"undo\":\"rm -rf /\"}\n");
        fs::write(dirs.journal("a"), text).unwrap();
        assert!(matches!(
            Journal::read(&dirs, "a"),
            Err(Error::Damaged { line: 3, .. })
        ));
        fs::remove_dir_all(root).unwrap();
    }
}
