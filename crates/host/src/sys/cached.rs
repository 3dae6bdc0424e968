//! The cache keeps the entries that were used last.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::file::if_there;
use super::tree;

/// Begins the name of an entry that is being removed.
pub const REMOVING: &str = ".remove-";

const HOUR: Duration = Duration::from_secs(3600);

/// Marks a file as used now. Fails when it is not there.
pub fn mark_used(file: &Path) -> io::Result<()> {
    let now = FileTimes::new().set_modified(SystemTime::now());
    File::open(file)?.set_times(now)
}

/// Marks a file as used now whose time of change means something else: as read. One that was read within the hour is left
/// alone, because a mark in a layer over the cache copies the whole file.
pub fn mark_read(file: &Path) -> io::Result<()> {
    let read = fs::metadata(file)?.accessed()?;
    if read.elapsed().is_ok_and(|age| age < HOUR) {
        return Ok(());
    }
    let now = FileTimes::new().set_accessed(SystemTime::now());
    File::open(file)?.set_times(now)
}

/// When a file was used last; `None` when it is not there.
pub fn used(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|of| of.modified()).ok()
}

/// Removes an entry, which no process finds from the first moment on. Not an error if it is gone.
pub fn remove(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return if_there(fs::remove_file(path)).map(drop);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(REMOVING) {
        return tree::remove(path);
    }
    let going = path.with_file_name(format!("{REMOVING}{name}"));
    // That of a removal that was cut off.
    tree::remove(&going)?;
    if_there(fs::rename(path, &going))?;
    tree::remove(&going)
}

/// Removes the files and directories of `dir` but for the `kept` that were used last. Those that `when` does not know stay.
pub fn remove_oldest(
    dir: &Path,
    kept: usize,
    when: impl Fn(&Path) -> Option<SystemTime>,
) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        found.extend(when(&path).map(|used| (used, path)));
    }
    found.sort();
    let excess = found.len().saturating_sub(kept);
    for (_, path) in found.iter().take(excess) {
        remove(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_removed_also_where_a_removal_was_cut_off() {
        let name = format!("latlab-cached-removed-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        for name in ["entry", ".remove-entry"] {
            fs::create_dir_all(dir.join(name)).unwrap();
            fs::write(dir.join(name).join("file"), "").unwrap();
        }
        for _ in 0..2 {
            remove(&dir.join("entry")).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        }
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn what_was_used_last_is_kept_and_what_is_not_known_stays() {
        let dir = std::env::temp_dir().join(format!("latlab-cached-{}", std::process::id()));
        for age in 0..5 {
            let entry = dir.join(format!("{age}.entry"));
            fs::create_dir_all(&entry).unwrap();
            fs::write(entry.join("mark"), "").unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            let times = FileTimes::new().set_modified(time);
            File::open(entry.join("mark"))
                .unwrap()
                .set_times(times)
                .unwrap();
        }
        fs::write(dir.join("lock"), "").unwrap();
        mark_used(&dir.join("4.entry/mark")).unwrap();
        remove_oldest(&dir, 2, |path| used(&path.join("mark"))).unwrap();
        let left = |name: &str| dir.join(name).exists();
        assert!(left("lock") && left("4.entry") && left("0.entry"));
        assert!(!left("1.entry") && !left("2.entry") && !left("3.entry"));
        fs::remove_dir_all(dir).unwrap();
    }
}
