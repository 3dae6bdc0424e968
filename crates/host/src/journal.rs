//! Undo first: before anything is made for a lab, how to unmake it is on disk.
//!
//! A journal is written once, whole, before the first change, because the plan already says what will be made: one
//! `fsync` a deployment, not one an object. It claims the lab's name too, since its directory can be made only once.
//! Removing needs nothing but the journal, works in any order of accidents (SIGKILL at any moment, a reboot), collects
//! errors instead of stopping, and finds nothing to do the second time.
//!
//! Nothing is removed on its name alone. Processes are known by a label in their environment,
//! interfaces by the kernel's alias, everything else by lying below latlab's own directories.
//!
//! **One at a time.** A latlab that makes or unmakes a lab holds a lock on its directory ([`Claim`]), so
//! that nothing is unmade while it is being made, and nothing is made behind the back of a removal.
//! The kernel releases it with its holder, however that dies, and not before the holder's last
//! thread has left the kernel: a removal never races with the rest of a killed deployment.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::dirs::Dirs;
use crate::links::{Divided, Lent, Port};
use crate::sys::file::if_there;

/// Between two attempts at a lab that another process holds.
const RETRY: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("lab `{0}` is already deployed")]
    Taken(String),
    #[error("`{0}` cannot be the name of a lab")]
    Name(String),
    #[error(
        "lab `{lab}` is being changed{} (waited {} s)",
        holder.map_or(String::new(), |pid| format!(" by process {pid}")),
        waited.as_secs()
    )]
    Held {
        lab: String,
        holder: Option<u32>,
        waited: Duration,
    },
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is damaged at line {line}", path.display())]
    Damaged {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        source: serde_json::Error,
    },
}

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: String,
    pub lab: String,
    /// Identifier of this deployment: the owner's label.
    pub id: String,
    /// Boot of the host in which it was written.
    pub boot_id: String,
}

impl Header {
    pub const FORMAT: &'static str = "latlab.journal/1";
}

/// How one thing is unmade. Each is idempotent and checks that the thing is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// End every process whose environment carries the label.
    Processes,
    /// End what is left in these cgroups and remove them.
    Cgroup { dirs: Vec<PathBuf> },
    /// Give back the machine's knobs that this owner turned; the journal of tuning knows them.
    Tuning { owner: String },
    /// Take from the pools of huge pages what the lab added; the ledger knows how many.
    HugePages,
    /// Delete an interface of the root namespace if its alias is ours.
    Interface { name: String },
    /// Move an interface of the host back from the node that has it.
    Lent { interface: Lent },
    /// Give a port of the host's cards back to its driver.
    Port { port: Port },
    /// Remove the virtual functions of a card.
    Divided { card: Divided },
    /// Unmount everything below a directory of ours.
    Mounts { below: PathBuf },
    /// Remove a directory of ours with all it holds; refused while something is mounted below it.
    Directory { path: PathBuf },
    /// Remove the storage of a lab's nodes, once no disk of it is in use.
    Storage { path: PathBuf },
}

/// The right to change a lab: a lock on its directory.
#[derive(Debug)]
pub struct Claim {
    _directory: File,
}

impl Claim {
    /// Claims a free name, by making its directory. Errors: [`Error::Taken`] when it is not free.
    pub fn new(dirs: &Dirs, lab: &str) -> Result<Claim, Error> {
        let path = directory(dirs, lab)?;
        fs::create_dir_all(dirs.labs()).map_err(io_error("create", &dirs.labs()))?;
        loop {
            fs::create_dir(&path).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => Error::Taken(lab.to_string()),
                _ => io_error("create", &path)(e),
            })?;
            // A removal may have found it empty and removed it before it was locked.
            if let Locked::Ours(directory) = lock(&path, FlockOperation::LockExclusive)? {
                return Ok(Claim {
                    _directory: directory,
                });
            }
        }
    }

    /// Claims a lab that is there, alone or beside others who do not make or unmake it either; `None` when there is
    /// none. Waits at most `timeout` for those in the way. Errors: [`Error::Held`] when they remain.
    pub fn existing(
        dirs: &Dirs,
        lab: &str,
        alone: bool,
        timeout: Duration,
    ) -> Result<Option<Claim>, Error> {
        let path = directory(dirs, lab)?;
        let operation = if alone {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        let deadline = Instant::now() + timeout;
        loop {
            match lock(&path, operation)? {
                Locked::Ours(directory) => {
                    return Ok(Some(Claim {
                        _directory: directory,
                    }));
                }
                Locked::Gone if !path.exists() => return Ok(None),
                // Removed and made again while we looked, or held.
                Locked::Gone | Locked::Held if Instant::now() < deadline => {
                    std::thread::sleep(RETRY);
                }
                Locked::Gone | Locked::Held => {
                    return Err(Error::Held {
                        lab: lab.to_string(),
                        holder: holder(&path),
                        waited: timeout,
                    });
                }
            }
        }
    }
}

enum Locked {
    Ours(File),
    /// Held by a process whose lock excludes ours.
    Held,
    Gone,
}

/// A lab's directory; only for what can be a name, because a directory that holds no journal is
/// removed as an empty claim, and `..` or an empty name would lead elsewhere.
fn directory(dirs: &Dirs, lab: &str) -> Result<PathBuf, Error> {
    let plain = !lab.is_empty() && !lab.starts_with('.') && !lab.contains(['/', '\0']);
    if plain {
        Ok(dirs.lab(lab))
    } else {
        Err(Error::Name(lab.to_string()))
    }
}

fn lock(path: &Path, operation: FlockOperation) -> Result<Locked, Error> {
    let Some(directory) = if_there(File::open(path)).map_err(io_error("open", path))? else {
        return Ok(Locked::Gone);
    };
    match rustix::io::retry_on_intr(|| rustix::fs::flock(&directory, operation)) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Locked::Held),
        Err(errno) => return Err(io_error("lock", path)(errno.into())),
    }
    // Its former holder may have removed it; the name may even be another lab's by now.
    let same = |found: fs::Metadata| {
        let ours = directory.metadata();
        ours.is_ok_and(|ours| (ours.dev(), ours.ino()) == (found.dev(), found.ino()))
    };
    if fs::metadata(path).is_ok_and(same) {
        Ok(Locked::Ours(directory))
    } else {
        Ok(Locked::Gone)
    }
}

/// The process that holds a lock on `path`, if the kernel's list names one.
fn holder(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let device = file.dev();
    let place = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device),
        file.ino()
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:393219 0 EOF
    let found = locks
        .lines()
        .find(|line| line.contains("FLOCK") && line.split_whitespace().nth(5) == Some(&place));
    let pid = found?.split_whitespace().nth(4)?.parse().ok()?;
    (pid > 0).then_some(pid)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

/// A journal that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    pub header: Header,
    /// How to unmake what was made, in the order in which to do it.
    pub undo: Vec<Undo>,
}

impl Journal {
    /// Writes the journal of a lab whose name is claimed; when this returns, it is on the disk.
    pub fn write(
        dirs: &Dirs,
        _claim: &Claim,
        header: Header,
        undo: Vec<Undo>,
    ) -> Result<Journal, Error> {
        let dir = directory(dirs, &header.lab)?;
        let journal = Journal { header, undo };
        let path = dirs.journal(&journal.header.lab);
        // Written under another name first: a journal is whole or absent, and absent means that nothing was made.
        let new = path.with_extension("new");
        let text = journal.to_text();
        File::create(&new)
            .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
            .map_err(io_error("write", &new))?;
        fs::rename(&new, &path).map_err(io_error("rename", &new))?;
        for dir in [&dir, &dirs.labs()] {
            let synced = File::open(dir).and_then(|d| d.sync_all());
            synced.map_err(io_error("sync", dir))?;
        }
        Ok(journal)
    }

    fn to_text(&self) -> String {
        let undo: String = self.undo.iter().map(line).collect();
        line(&self.header) + &undo
    }

    /// Reads a lab's journal; `None` when it has none, which means that nothing was made.
    pub fn read(dirs: &Dirs, lab: &str) -> Result<Option<Journal>, Error> {
        directory(dirs, lab)?;
        let path = dirs.journal(lab);
        let text = if_there(fs::read_to_string(&path)).map_err(io_error("read", &path))?;
        let Some(text) = text else { return Ok(None) };
        Journal::parse(&text)
            .map(Some)
            .map_err(|(line, source)| Error::Damaged { path, line, source })
    }

    /// The identifier of the deployment that has a name now; `None` when it has no journal.
    pub fn id(dirs: &Dirs, lab: &str) -> Option<String> {
        let mut first = String::new();
        let journal = File::open(dirs.journal(lab)).ok()?;
        io::BufRead::read_line(&mut io::BufReader::new(journal), &mut first).ok()?;
        let header: Header = serde_json::from_str(&first).ok()?;
        Some(header.id)
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

    /// Forgets the lab: the journal goes last, when all it lists is gone. Only files that latlab
    /// writes are removed; a directory that holds others stays.
    pub fn forget(dirs: &Dirs, lab: &str) -> Result<(), Error> {
        let dir = directory(dirs, lab)?;
        let (journal, state) = (dirs.journal(lab), dirs.state(lab));
        // First what says that the lab is up.
        let files = [
            state.with_extension("new"),
            state,
            journal.with_extension("new"),
            journal,
        ];
        for file in &files {
            if_there(fs::remove_file(file)).map_err(io_error("remove", file))?;
        }
        let removed = if_there(fs::remove_dir(&dir));
        removed.map(drop).map_err(io_error("remove", &dir))
    }
}

/// Whether a lab of that name exists, made or half-made; false for what cannot be a name.
pub fn exists(dirs: &Dirs, lab: &str) -> bool {
    directory(dirs, lab).is_ok_and(|dir| dir.exists())
}

fn line<T: Serialize>(value: &T) -> String {
    // Plain structs with string keys always serialise.
    serde_json::to_string(value).expect("journal lines are plain data") + "\n"
}

/// The labs that have a directory, sorted by name. Fails when the directory exists but cannot be read.
pub fn labs(dirs: &Dirs) -> Result<Vec<String>, Error> {
    let path = dirs.labs();
    let entries = if_there(fs::read_dir(&path)).map_err(io_error("read", &path))?;
    let entries = entries.into_iter().flatten();
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| directory(dirs, name).is_ok())
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
        let claim = Claim::new(&dirs, "a").unwrap();
        let written = Journal::write(&dirs, &claim, header("a"), undo).unwrap();
        assert!(matches!(Claim::new(&dirs, "a"), Err(Error::Taken(_))));
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
        let claim = Claim::new(&dirs, "a").unwrap();
        Journal::write(&dirs, &claim, header("a"), vec![Undo::Processes]).unwrap();
        let mut text = fs::read_to_string(dirs.journal("a")).unwrap();
        text.push_str("{\"undo\":\"rm -rf /\"}\n");
        fs::write(dirs.journal("a"), text).unwrap();
        assert!(matches!(
            Journal::read(&dirs, "a"),
            Err(Error::Damaged { line: 3, .. })
        ));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_lab_is_changed_by_one_and_used_by_many() {
        let (dirs, root) = scratch("claims");
        let existing = |alone| Claim::existing(&dirs, "a", alone, Duration::from_millis(30));
        assert!(existing(true).unwrap().is_none(), "there is no lab yet");
        let claim = Claim::new(&dirs, "a").unwrap();
        let Err(Error::Held { lab, holder, .. }) = existing(true) else {
            panic!("claimed twice");
        };
        assert_eq!((lab.as_str(), holder), ("a", Some(std::process::id())));
        assert!(matches!(existing(false), Err(Error::Held { .. })));
        drop(claim);
        let (one, other) = (existing(false).unwrap(), existing(false).unwrap());
        assert!(one.is_some() && other.is_some());
        assert!(matches!(existing(true), Err(Error::Held { .. })));
        drop((one, other));
        assert!(existing(true).unwrap().is_some());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_claim_of_a_removed_lab_is_none() {
        let (dirs, root) = scratch("gone");
        let claim = Claim::new(&dirs, "a").unwrap();
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| Claim::existing(&dirs, "a", true, Duration::from_secs(20)));
            std::thread::sleep(Duration::from_millis(50));
            Journal::forget(&dirs, "a").unwrap();
            drop(claim);
            assert!(waiting.join().unwrap().unwrap().is_none());
        });
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn impossible_names_are_refused() {
        let (dirs, root) = scratch("names");
        fs::create_dir_all(dirs.labs()).unwrap();
        fs::write(root.join("precious"), "").unwrap();
        let outside = root.join("precious").display().to_string();
        for name in ["", ".", "..", "../..", "a/b", &outside] {
            let refused = |result: Result<(), Error>| matches!(result, Err(Error::Name(_)));
            assert!(refused(Journal::forget(&dirs, name)), "{name}");
            assert!(refused(Journal::read(&dirs, name).map(drop)), "{name}");
            assert!(refused(Claim::new(&dirs, name).map(drop)), "{name}");
            let existing = Claim::existing(&dirs, name, true, Duration::ZERO);
            assert!(refused(existing.map(drop)), "{name}");
        }
        assert!(root.join("precious").exists() && dirs.labs().exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn forgetting_leaves_files_of_others() {
        let (dirs, root) = scratch("others");
        let claim = Claim::new(&dirs, "a").unwrap();
        Journal::write(&dirs, &claim, header("a"), vec![]).unwrap();
        let theirs = dirs.lab("a").join("notes.txt");
        fs::write(&theirs, "mine").unwrap();
        assert!(Journal::forget(&dirs, "a").is_err());
        assert!(theirs.exists());
        fs::remove_dir_all(root).unwrap();
    }
}
