//! Keeping the index like the directory: a thread looks for run directories that are new, changed or gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde::Serialize;

use super::error::IndexError;
use super::open::{connect, open};
use super::write;
use crate::entry;

/// Directories between the served one and a run.
const MAX_DEPTH: usize = 4;
/// Runs read between two commits: readers see progress, and one transaction does not cost more than what is in it.
const BATCH: usize = 64;
/// Age of a scan that answers a request.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// Wait of a request for a scan. With a directory of usual size it is over by then, and a run that has just ended is found.
const MAX_WAIT: Duration = Duration::from_millis(60);

/// How far a scan is. While directories are listed, the number of those to read is not known, and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub done: usize,
    pub of: usize,
}

/// The served directory and its index, kept alike.
#[derive(Debug)]
pub struct Scanner {
    root: PathBuf,
    index: PathBuf,
    done: AtomicUsize,
    of: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    annotating: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    is_running: bool,
    ended: Option<Instant>,
    failure: Option<String>,
}

impl Scanner {
    /// One that wants a first scan.
    pub(crate) fn new(root: PathBuf, index: PathBuf) -> Self {
        Self {
            root,
            index,
            done: AtomicUsize::new(0),
            of: AtomicUsize::new(0),
            state: Mutex::new(State {
                is_wanted: true,
                ..State::default()
            }),
            changed: Condvar::new(),
            annotating: Mutex::new(()),
        }
    }

    /// Starts the thread, which lives as long as the process, and a first scan.
    pub fn start(root: PathBuf, index: PathBuf) -> Arc<Self> {
        let scanner = Arc::new(Self::new(root, index));
        let own = Arc::clone(&scanner);
        thread::spawn(move || own.work());
        scanner
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A connection for one request. Where there is no index any more, the next scan makes one.
    pub fn connection(&self) -> Result<Connection, IndexError> {
        if !self.index.exists() {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.is_running {
                self.want(&mut state);
            }
        }
        Ok(connect(&self.index)?)
    }

    /// Has the directory scanned unless that was done just now, and waits a moment for the end. Returns the progress of a
    /// scan that needs longer.
    pub fn refresh(&self) -> Option<Progress> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = state.ended.is_some_and(|ended| ended.elapsed() < FRESH_FOR);
        if !is_fresh && !state.is_running {
            self.want(&mut state);
        }
        let is_over = |state: &mut State| state.is_wanted || state.is_running;
        let waited = self.changed.wait_timeout_while(state, MAX_WAIT, is_over);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let progress = Progress {
            done: self.done.load(Ordering::Relaxed),
            of: self.of.load(Ordering::Relaxed),
        };
        (state.is_running || state.is_wanted).then_some(progress)
    }

    fn want(&self, state: &mut State) {
        state.is_wanted = true;
        self.done.store(0, Ordering::Relaxed);
        self.of.store(0, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Why the last scan did not end.
    pub fn failure(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure.clone()
    }

    /// Held from the reading of an annotation to the writing of another: of two writers who saw the same, one is refused.
    pub fn annotating(&self) -> MutexGuard<'_, ()> {
        self.annotating
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a directory again at once, because its annotation was just written.
    pub fn update(&self, path: &str) -> Result<(), IndexError> {
        let mut connection = self.connection()?;
        let transaction = connection.transaction()?;
        let directory = self.root.join(path);
        match entry::stamp(&directory) {
            Some(stamp) => write::replace(&transaction, &stamp, &entry::read(&directory, path))?,
            None => write::remove(&transaction, path)?,
        }
        Ok(transaction.commit()?)
    }

    fn work(&self) {
        loop {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_while(state, |state| !state.is_wanted);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            (state.is_wanted, state.is_running) = (false, true);
            drop(state);
            let failure = self.scan().err().map(|error| text(&error));
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_running, state.ended, state.failure) = (false, Some(Instant::now()), failure);
            self.changed.notify_all();
        }
    }

    fn scan(&self) -> Result<(), IndexError> {
        let mut found = BTreeMap::new();
        list(&self.root, Path::new(""), 0, &mut found)?;
        // The cache may be emptied at any time.
        let mut connection = match self.index.exists() {
            true => connect(&self.index)?,
            false => open(&self.index)?,
        };
        let known = known(&connection)?;
        let gone: Vec<&String> = known
            .keys()
            .filter(|path| !found.contains_key(*path))
            .collect();
        let changed: Vec<(&String, &String)> = found
            .iter()
            .filter(|(path, stamp)| known.get(*path) != Some(*stamp))
            .collect();
        self.done.store(0, Ordering::Relaxed);
        self.of.store(changed.len(), Ordering::Relaxed);

        if !gone.is_empty() {
            let transaction = connection.transaction()?;
            for path in gone {
                write::remove(&transaction, path)?;
            }
            transaction.commit()?;
        }
        for batch in changed.chunks(BATCH) {
            let entries = self.read(batch);
            let transaction = connection.transaction()?;
            for (entry, (_, stamp)) in entries.iter().zip(batch) {
                write::replace(&transaction, stamp, entry)?;
            }
            transaction.commit()?;
            self.done.fetch_add(batch.len(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads some directories on all CPUs.
    fn read(&self, batch: &[(&String, &String)]) -> Vec<entry::Entry> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = batch.len().div_ceil(threads).max(1);
        let one = |(path, _): &(&String, &String)| entry::read(&self.root.join(path), path);
        thread::scope(|scope| {
            let parts = batch.chunks(share);
            let parts: Vec<_> = parts
                .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
                .collect();
            let read = parts.into_iter().flat_map(|part| match part.join() {
                Ok(entries) => entries,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            read.collect()
        })
    }
}

/// Directories that the index knows, with the stamps that they had.
fn known(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare("SELECT path, stamp FROM run")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Run directories below `relative`, with their stamps. No symbolic link is followed. A directory below the first that
/// cannot be read is left out, and so is a name that is no UTF-8.
fn list(
    root: &Path,
    relative: &Path,
    depth: usize,
    found: &mut BTreeMap<String, String>,
) -> Result<(), IndexError> {
    let path = root.join(relative);
    let children = match fs::read_dir(&path) {
        Ok(children) => children,
        Err(_) if depth > 0 => return Ok(()),
        Err(source) => return Err(IndexError::List { path, source }),
    };
    for child in children.flatten() {
        let Ok(name) = child.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || !child.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let below = relative.join(name);
        match (entry::stamp(&root.join(&below)), below.to_str()) {
            (Some(stamp), Some(path)) => {
                found.insert(path.to_owned(), stamp);
            }
            _ if depth + 1 < MAX_DEPTH => list(root, &below, depth + 1, found)?,
            _ => {}
        }
    }
    Ok(())
}

fn text(error: &IndexError) -> String {
    let source = std::error::Error::source(error);
    let source = source.map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_still_lists_directories_is_one_of_unknown_length() {
        // Without a thread, the scan that is wanted does not begin.
        let scanner = Scanner::new(PathBuf::from("runs"), PathBuf::from("index"));
        scanner.done.store(7, Ordering::Relaxed);
        scanner.of.store(7, Ordering::Relaxed);
        scanner.state.lock().unwrap().is_wanted = false;
        assert_eq!(scanner.refresh(), Some(Progress { done: 0, of: 0 }));
    }
}
