//! Removing entries of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Kind, LabUse};
use super::error::Error;
use super::find::{find_in, list};
use super::in_use::alone;
use crate::sys::cached;
use crate::sys::file::if_there;

/// Another latlab is waited for this long by one who was asked to remove entries.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many entries of a kind are kept, those that were used last; others have bounds where they are made.
/// Each with its directory: only those are looked through before every deployment.
const KEPT: [(Kind, &str, usize); 3] = [
    (Kind::Image, "images", 16),
    (Kind::Kernel, "kernels", 16),
    (Kind::Disk, "disks", 16),
];
/// Labs of another state directory are not known, so what was used since then is not counted out.
const SPARED: Duration = Duration::from_secs(86_400);

/// The entries that are to go. What a lab uses never goes, and what a killed latlab left always.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// Those that were not used for so long; none: all.
    pub older_than: Option<Duration>,
    /// Only tell.
    pub dry_run: bool,
}

#[derive(Debug, Default)]
pub struct Cleaned {
    pub removed: Vec<Entry>,
    /// Those that would have gone, but for the labs that use them.
    pub in_use: Vec<Entry>,
}

/// Removes entries. `uses` tells what deployed labs use, once no other latlab deploys one.
pub fn clean<E: From<Error>>(
    cache: &Path,
    choice: Choice,
    uses: impl FnOnce() -> Result<Vec<LabUse>, E>,
) -> Result<Cleaned, E> {
    let mut cleaned = Cleaned::default();
    if !cache.is_dir() {
        return Ok(cleaned);
    }
    let _alone = alone(cache, TIMEOUT)?;
    for entry in list(cache, &uses()?)? {
        let is_old = choice.older_than.is_none_or(|limit| age(&entry) >= limit);
        match (is_old || entry.kind == Kind::Rest, entry.labs.is_empty()) {
            (false, _) => {}
            (true, false) => cleaned.in_use.push(entry),
            (true, true) => {
                if !choice.dry_run {
                    remove(&entry.path)?;
                }
                cleaned.removed.push(entry);
            }
        }
    }
    if !choice.dry_run {
        forget_recipes(&cache.join("images"))?;
    }
    Ok(cleaned)
}

/// Removes the entries beyond the bounds that no lab uses. Where another latlab is at work, the next one does it.
pub fn keep_bounds<E: From<Error>>(
    cache: &Path,
    uses: impl FnOnce() -> Result<Vec<LabUse>, E>,
) -> Result<(), E> {
    if !cache.is_dir() || beyond(cache)?.is_empty() {
        return Ok(());
    }
    let _alone = match alone(cache, Duration::ZERO) {
        Err(Error::Busy(_)) => return Ok(()),
        alone => alone?,
    };
    let uses = uses()?;
    for entry in beyond(cache)? {
        if !uses.iter().any(|lab| lab.has(entry.kind, &entry.path)) {
            remove(&entry.path)?;
        }
    }
    Ok(())
}

/// Zero for one that is marked ahead of this clock.
fn age(entry: &Entry) -> Duration {
    let now = SystemTime::now();
    now.duration_since(entry.used).unwrap_or_default()
}

fn beyond(cache: &Path) -> Result<Vec<Entry>, Error> {
    let directories = KEPT.map(|(_, directory, _)| PathBuf::from(directory));
    let found = find_in(cache, directories)?;
    let of = |(kind, _, kept): (Kind, &str, usize)| {
        let those = found.iter().filter(move |entry| entry.kind == kind);
        those
            .skip(kept)
            .filter(|entry| age(entry) > SPARED)
            .cloned()
    };
    Ok(KEPT.into_iter().flat_map(of).collect())
}

fn remove(path: &Path) -> Result<(), Error> {
    cached::remove(path).map_err(Error::io("remove", path))
}

/// Removes what is noted of images that are gone.
fn forget_recipes(images: &Path) -> Result<(), Error> {
    let recipes = images.join("recipes");
    let notes = if_there(fs::read_dir(&recipes)).map_err(Error::io("list", &recipes))?;
    let notes = notes.into_iter().flatten().flatten();
    for note in notes.filter(|note| note.file_name() != ".lock") {
        let path = note.path();
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let is_there = text
            .lines()
            .next()
            .is_some_and(|it| images.join(it).is_dir());
        if !is_there {
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
