//! Looking through the cache.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::entry::{Entry, Kind, LabUse};
use super::error::Error;
use crate::sys::cached::REMOVING;
use crate::sys::file::if_there;

/// Names of what is under way, by how they begin or end.
const BEGUN: [&str; 5] = [REMOVING, ".make-", ".unpack-", ".fetch-", ".criu-"];
/// Begins and ends the name of the log of an accelerator's proof, which has a process's number between.
const PROOF_LOG: [&str; 2] = ["accelerator-", ".log"];
const UNFINISHED: [&str; 3] = [".new", ".excluded", ".tmp"];
/// A template's file that is marked when it is used.
const DESCRIPTION: &str = "description";

/// All entries, those that were used last first, with their sizes and the labs that use them.
pub fn list(cache: &Path, uses: &[LabUse]) -> Result<Vec<Entry>, Error> {
    let mut found = find(cache)?;
    for entry in &mut found {
        entry.bytes = size(&entry.path).map_err(Error::io("look at", &entry.path))?;
        let users = uses.iter().filter(|lab| lab.has(entry.kind, &entry.path));
        entry.labs = users.map(|lab| lab.lab.clone()).collect();
    }
    Ok(found)
}

/// All entries without their sizes and labs.
fn find(cache: &Path) -> Result<Vec<Entry>, Error> {
    let places = ["", "images", "disks", "kernels", "templates"].map(PathBuf::from);
    let programs = entries(&cache.join("borrowed"))?.into_iter();
    let programs = programs.map(|(name, _)| Path::new("borrowed").join(name));
    find_in(cache, places.into_iter().chain(programs))
}

/// Those of some directories of the cache.
pub(super) fn find_in(
    cache: &Path,
    places: impl IntoIterator<Item = PathBuf>,
) -> Result<Vec<Entry>, Error> {
    let mut found = Vec::new();
    for place in places {
        for (name, metadata) in entries(&cache.join(&place))? {
            let Some(kind) = kind(&place, &name, &metadata) else {
                continue;
            };
            let path = cache.join(&place).join(&name);
            found.push(Entry {
                kind,
                name: match place.strip_prefix("borrowed") {
                    Ok(program) => format!("{} {name}", program.display()),
                    Err(_) => name,
                },
                bytes: 0,
                used: used(kind, &path, &metadata),
                labs: Vec::new(),
                path,
            });
        }
    }
    found.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}

/// The names in a directory of the cache. One that is not there, or is a link and so another's, has none.
fn entries(directory: &Path) -> Result<Vec<(String, Metadata)>, Error> {
    let is_own = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    if !is_own {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let entry = entry.map_err(Error::io("list", directory))?;
        // One that is gone meanwhile is none.
        if let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) {
            found.push((name, metadata));
        }
    }
    Ok(found)
}

/// The kind of an entry; none of what is not to be removed.
fn kind(place: &Path, name: &str, metadata: &Metadata) -> Option<Kind> {
    let is_dir = metadata.is_dir();
    let is_digest = |name: &str| name.len() >= 32 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let is_begun = BEGUN.iter().any(|begun| name.starts_with(begun));
    let is_unfinished = UNFINISHED.iter().any(|end| name.ends_with(end));
    let [begin, end] = PROOF_LOG;
    let is_log = name.starts_with(begin) && name.ends_with(end);
    if is_begun || is_unfinished || is_log {
        return Some(Kind::Rest);
    }
    let is_initramfs = name.starts_with("initramfs-") && name.ends_with(".cpio");
    match place.to_str()? {
        "" | "kernels" if is_initramfs => Some(Kind::Initramfs),
        "images" if is_dir && is_digest(name) => Some(Kind::Image),
        "disks" if name.strip_suffix(".squashfs").is_some_and(is_digest) => Some(Kind::Disk),
        "templates" if is_dir && is_digest(name) => Some(Kind::Template),
        "kernels" if is_dir || name.starts_with("vmlinux-") => Some(Kind::Kernel),
        // Package lists, which are read anew for each program.
        place if place.starts_with("borrowed/") && is_dir => match name {
            "apt" => Some(Kind::Rest),
            _ => Some(Kind::Program),
        },
        _ => None,
    }
}

/// When it was used last.
fn used(kind: Kind, path: &Path, metadata: &Metadata) -> SystemTime {
    let modified = |metadata: &Metadata| metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    match kind {
        Kind::Template => fs::metadata(path.join(DESCRIPTION))
            .map_or_else(|_| modified(metadata), |description| modified(&description)),
        // The time of its change tells templates apart, so that of its last reading is marked.
        Kind::Kernel if metadata.is_file() => {
            let read = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            read.max(modified(metadata))
        }
        _ => modified(metadata),
    }
}

/// Bytes on the disk of a file, or of a directory with all below it. A file with several names counts once.
fn size(path: &Path) -> io::Result<u64> {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Some(found) = if_there(fs::symlink_metadata(&path))? else {
            continue;
        };
        if found.nlink() > 1 && !found.is_dir() && !seen.insert((found.dev(), found.ino())) {
            continue;
        }
        bytes += found.blocks() * 512;
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(bytes)
}
